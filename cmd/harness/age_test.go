package main

import (
	"os"
	"testing"
	"time"
)

func TestProcessAge_IsThatOfThisProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uptime, stat string
		want         time.Duration
	}{
		{"100.50 7.00\n", "1 (sh) S 1 1 1 0 -1 4 1 1 0 0 1 2 3 4 20 0 1 0 10000 5 6", 510 * time.Millisecond},
		{"100.50 7.00\n", "1 (a ) S (b) S 1 1 1 0 -1 4 1 1 0 0 1 2 3 4 20 0 1 0 10050 5 6", tick},
		{"100.50 7.00\n", "1 (sh) S 1 1 1 0 -1 4 1 1 0 0 1 2 3 4 20 0 1 0 10060 5 6", tick},
		{"100.50 7.00\n", "1 (sh) S 1", 0},
		{"", "1 (sh) S 1 1 1 0 -1 4 1 1 0 0 1 2 3 4 20 0 1 0 10000 5 6", 0},
		{"100.50 7.00\n", "", 0},
	} {
		if got := ageFrom([]byte(c.uptime), []byte(c.stat)); got != c.want {
			t.Errorf("%q: %v, want %v", c.stat, got, c.want)
		}
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil && (processAge() <= 0 || processAge() > time.Hour) {
		t.Errorf("this process is %v old", processAge())
	}
}
