package daemon

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"harness/pkg/config"
	"harness/pkg/control"
	"harness/reconcile"
)

// emitter tells whoever watches that something happened. It never blocks.
type emitter func(kind, name string, generation uint64, message string)

func emitTo(hub *control.Hub) emitter {
	return func(kind, name string, generation uint64, message string) {
		hub.Publish(control.Event{At: time.Now().UTC(), Kind: kind, Name: control.OrNull(name), Generation: control.OrNull(generation), Message: message})
	}
}

// said is what was reported last, so that a thing that stays is said once.
type said struct {
	refused          bool
	faults, warnings string
}

// Report implements [reconcile.World]: one line in the log and one event for
// each thing that happened, and nothing for a pass without news.
func (w *world) Report(r reconcile.Report) {
	s := r.State
	if r.Read {
		w.reportFaults(s)
		w.reportWarnings(s)
		if s.OK && (w.said.refused || len(r.Plan) > 0) {
			w.log.Info("config accepted", "file", w.loader.global.path, "generation", s.Generation)
			w.emit("load", "", s.Generation, "the files are in force")
		}
		w.said.refused = !s.OK
	}
	if n := len(r.Plan); n == 1 {
		w.emit("plan", "", s.Generation, "1 step")
	} else if n > 1 {
		w.emit("plan", "", s.Generation, fmt.Sprintf("%d steps", n))
	}
	for _, step := range r.Plan {
		w.log.Info("step", "generation", s.Generation, "step", step.String())
		w.emit("step", step.Name, s.Generation, step.String())
	}
}

// reportFaults says why the config was refused, and what runs instead (CFG-2).
func (w *world) reportFaults(s reconcile.State) {
	text := lines(s.Faults)
	if text == w.said.faults {
		return
	}
	w.said.faults = text
	for _, f := range s.Faults {
		w.log.Error("config refused", "fault", f.String())
		w.emit("refused", "", s.Generation, f.String())
	}
	refused := slices.ContainsFunc(s.Faults, func(f config.Fault) bool { return f.File == w.loader.global.path })
	switch {
	case s.OK:
	case !refused:
		w.log.Warn("the last good file of a project stays in force", "generation", s.Generation)
	case s.Generation > 0:
		w.log.Warn("the last good config stays in force", "generation", s.Generation)
	case w.loader.global.good != nil:
		w.log.Warn("the last good config cannot be used any more; no upstream runs until a config is good", "file", w.loader.global.path)
	default:
		w.log.Warn("no config was ever good; no upstream runs until one is", "file", w.loader.global.path)
	}
}

func (w *world) reportWarnings(s reconcile.State) {
	text := lines(s.Warnings)
	if text == w.said.warnings {
		return
	}
	w.said.warnings = text
	for _, f := range s.Warnings {
		w.log.Warn("config", "warning", f.String())
		w.emit("warning", "", s.Generation, f.String())
	}
}

func lines(faults []config.Fault) string {
	var b strings.Builder
	for _, f := range faults {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// turn is a new state of something that has a process.
type turn struct {
	kind, name string // an attribute of the log line: "upstream", its key
	state      string
	pid        int // 0 for none
	message    string
}

// tell logs a turn and passes it on under the name the command line uses.
func tell(log *slog.Logger, emit emitter, t turn, as string) {
	attrs := []any{t.kind, t.name, "state", t.state}
	if t.pid > 0 {
		attrs = append(attrs, "pid", t.pid)
	}
	message := t.state
	if t.message != "" {
		attrs = append(attrs, "message", t.message)
		message += ": " + t.message
	}
	log.Info("new state", attrs...)
	emit("state", as, 0, message)
}
