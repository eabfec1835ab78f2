package daemon

import (
	"fmt"
	"os"
	"time"

	"harness/pkg/control"
	"harness/pkg/proc"
)

// Usage implements [control.Ops]. What has no unit of its own, a bounded run,
// counts for the daemon.
func (o *ops) Usage() (*control.Usage, error) {
	self := os.Getpid()
	units := []control.UnitUsage{{Kind: "daemon", Name: "daemon", State: "running", PID: &self}}
	for _, h := range o.List("") {
		units = append(units, control.UnitUsage{Kind: "harness", Name: h.Name, State: h.State, PID: h.PID, Restarts: h.Restarts})
	}
	for _, u := range o.upstreams(o.loop.State().Desired) {
		units = append(units, control.UnitUsage{Kind: "upstream", Name: u.Name, State: u.State, PID: u.PID, Restarts: u.Restarts})
	}
	var roots []int
	for _, u := range units {
		if u.PID != nil {
			roots = append(roots, *u.PID)
		}
	}
	all, err := proc.ReadUsage(roots)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	now := time.Now().UTC()
	for i, u := range units {
		if u.PID == nil {
			continue
		}
		if used, there := all[*u.PID]; there {
			ms := used.CPU.Milliseconds()
			units[i].Processes, units[i].CPUMS, units[i].Memory = &used.Processes, &ms, &used.Memory
		}
	}
	return &control.Usage{At: now, Units: units}, nil
}
