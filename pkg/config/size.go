package config

import (
	"math"
	"strconv"
	"strings"
)

// parseSize reads a size such as "64MiB" in bytes: digits and a unit, spelled
// exactly so. ok is false for anything else, and for what does not fit.
func parseSize(s string) (size int64, ok bool) {
	digits := strings.TrimRight(s, "BKMGi")
	unit, ok := sizeUnit(s[len(digits):])
	if !ok || digits == "" || !within(digits, isDigit) {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

func sizeUnit(name string) (int64, bool) {
	switch name {
	case "B":
		return 1, true
	case "KB":
		return 1e3, true
	case "KiB":
		return 1 << 10, true
	case "MB":
		return 1e6, true
	case "MiB":
		return 1 << 20, true
	case "GB":
		return 1e9, true
	case "GiB":
		return 1 << 30, true
	}
	return 0, false
}
