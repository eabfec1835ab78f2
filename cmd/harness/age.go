package main

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// tick is the unit of start times in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// processAge is how long ago this process was started, to the next tick above;
// 0 where the system does not say.
func processAge() time.Duration {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	return ageFrom(uptime, stat)
}

// ageFrom compares the seconds since boot with the start time in stat. The
// command's name, which may hold anything, ends at the last parenthesis.
func ageFrom(uptime, stat []byte) time.Duration {
	const startTime = 22 - 3 // of the fields behind the name, the first of which is number 3
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	seconds, _, _ := bytes.Cut(uptime, []byte(" "))
	up, err := strconv.ParseFloat(string(seconds), 64)
	if err != nil || len(fields) <= startTime {
		return 0
	}
	ticks, err := strconv.ParseInt(string(fields[startTime]), 10, 64)
	if err != nil {
		return 0
	}
	return max(time.Duration(up*float64(time.Second))-time.Duration(ticks)*tick, 0) + tick
}
