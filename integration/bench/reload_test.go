package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"harness/pkg/config"
)

// BenchmarkReload compares reloads of a large fleet with those of a small one.
func BenchmarkReload(b *testing.B) { benchmark(b, reloadParts()) }

func reloadParts() []part {
	return []part{
		{"reload", "live", reloadLive},
		{"reload", "swap", reloadSwap},
	}
}

// smallFleet is how many upstreams the fleet has that a large one is compared
// with.
const smallFleet = 2

// fleet is a daemon and what its config is made of.
type fleet struct {
	*daemon
	tables []string
}

func startFleet(tb testing.TB, n int) *fleet {
	tb.Helper()
	h := newHome(tb)
	tables := h.fleet(n)
	return &fleet{h.start(tables...), tables}
}

// text is the config with lines added to the last table, as an edit adds them.
func (f *fleet) text(more string) string {
	last := len(f.tables) - 1
	return configText(append(slices.Clone(f.tables[:last]), f.tables[last]+more)...)
}

// timed edits nothing when text is "", asks for a reload, checks what it did,
// and returns how long it took, in ms.
func (f *fleet) timed(text string, actions ...string) float64 {
	f.tb.Helper()
	if text != "" {
		f.configure(text)
	}
	began := time.Now()
	changed := f.reload()
	took := millis(time.Since(began))
	var did []string
	for _, c := range changed {
		did = append(did, c.Action)
	}
	if !slices.Equal(did, actions) {
		f.tb.Fatalf("the reload did %v, not %v", changed, actions)
	}
	return took
}
