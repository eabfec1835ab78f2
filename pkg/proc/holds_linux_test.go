package proc

import (
	"testing"
)

func TestHolds_WhoIsOfAGroup(t *testing.T) {
	h := newHost(t)
	spec := helperSpec("echo")
	spec.Name = "contract.a"
	step, err := h.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Name = "other"
	other, err := h.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := ReadRecord(h.Dir())
	for name, tt := range map[string]struct {
		pid                   int
		start                 uint64
		holds, recorded, owns bool
	}{
		"the step":                 {step.PID(), step.StartTime(), true, true, false},
		"who had its number":       {step.PID(), step.StartTime() - 1, false, false, false},
		"another group":            {other.PID(), other.StartTime(), false, true, false},
		"who started them":         {h.self.PID, h.self.Start, false, false, true},
		"nobody that can be found": {0, 0, false, false, false},
	} {
		if got := h.Holds("contract.", tt.pid, tt.start); got != tt.holds {
			t.Errorf("%s: %v", name, got)
		}
		if got := r.Holds(tt.pid, tt.start); got != tt.recorded {
			t.Errorf("%s in the record: %v", name, got)
		}
		if got := r.Owns(tt.pid, tt.start); got != tt.owns {
			t.Errorf("%s owns it: %v", name, got)
		}
	}
	if h.Runs("none") || !h.Runs("contract.") {
		t.Error("what runs is not known")
	}
	step.Kill()
	other.Kill()
	if empty := ReadRecord(t.TempDir()); empty.Holds(step.PID(), step.StartTime()) {
		t.Error("an empty record has it")
	}
}
