package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"harness/pkg/control"
	"harness/pkg/evidence"
)

// asking is one request under a key, and the first answer to it.
type asking struct {
	tool      string
	arguments map[string]any
	answer    string // "" while there is none
}

// siege is what the test of kills of runs remembers over the daemons.
type siege struct {
	*home
	rnd *rand.Rand

	mu     sync.Mutex
	asked  []*asking
	n      int
	flows  []string // workflows that were begun
	tails  int      // torn ends that were named
	resent int
}

// plan makes the requests of one round, about a run under way.
func (s *siege) plan(steady string) (round []*asking) {
	for i := range 3 + s.rnd.IntN(6) {
		a := &asking{arguments: map[string]any{}}
		switch pick := s.rnd.IntN(9); {
		case pick < 3:
			a.tool, a.arguments["name"] = "harness_run_launch", "counts"
		case pick < 5:
			a.tool, a.arguments["file"] = "harness_workflow_start", s.path("roots/wf.toml")
		case pick < 6 && len(s.flows) > 0:
			a.tool, a.arguments["id"] = "harness_workflow_resume", s.flows[s.rnd.IntN(len(s.flows))]
		default:
			a.tool, a.arguments["run"], a.arguments["body"] = []string{"harness_message_progress", "harness_message_steer"}[i%2], steady, strings.Repeat("x", 1+s.rnd.IntN(30000))
		}
		s.n++
		a.arguments["idempotency_key"] = fmt.Sprint("k", s.n)
		round = append(round, a)
	}
	return round
}

// dial waits for the daemon: what a killed one was about to run may hold its
// socket until it runs.
func (s *siege) dial() (c *control.Client) {
	s.t.Helper()
	eventually(s.t, "the daemon answers", func() (ok bool) {
		var err error
		c, err = control.Dial(s.t.Context(), s.socket())
		return err == nil
	})
	return c
}

// ask asks once; the daemon may end meanwhile.
func (s *siege) ask(a *asking) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := control.Dial(ctx, s.socket())
	if err != nil {
		return
	}
	defer c.Close()
	raw, err := c.OperateRaw(ctx, a.tool, a.arguments)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return // it is asked again
	}
	first, again := a.answer, replayed(string(raw))
	if a.answer = again; first != "" && first != again {
		s.t.Errorf("%s %v answers\n%s\nand was answered\n%s", a.tool, a.arguments["idempotency_key"], again, first)
	}
	if got := answered(s.t, again); first == "" && a.tool == "harness_workflow_start" {
		s.flows = append(s.flows, got.Workflow.ID)
	}
}

// again asks what was asked of an earlier daemon: some of it was answered.
func (s *siege) again(round []*asking) {
	for _, a := range round {
		s.resent++
		s.ask(a)
	}
}

// verifies demands that the evidence of every run of a page does, and counts
// what was torn and is named.
func (s *siege) verifies(c *control.Client, limit int) {
	s.t.Helper()
	ctx := s.t.Context()
	for after := ""; ; {
		var page struct {
			Runs      []ran
			NextAfter *string `json:"next_after"`
		}
		if err := c.Operate(ctx, "runs", map[string]any{"limit": min(limit, 100), "after": after}, &page); err != nil {
			s.t.Fatal(err)
		}
		for _, r := range page.Runs {
			var v struct {
				OK    bool
				Error json.RawMessage
			}
			if err := c.Operate(ctx, "verify", map[string]any{"run": r.ID}, &v); err != nil || !v.OK {
				s.t.Errorf("%s: %s, %v", r.ID, v.Error, err)
			}
		}
		if limit -= len(page.Runs); page.NextAfter == nil || limit <= 0 {
			return
		}
		after = *page.NextAfter
	}
}

// journals checks every workflow on the disk: none ran a node again that was
// finished, or one twice at a time.
func (s *siege) journals() {
	s.t.Helper()
	dirs, err := filepath.Glob(s.path("state/harness/workflows/wf-*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range dirs {
		dir, err := evidence.OpenDir(path)
		if err != nil {
			s.t.Fatal(err)
		}
		records, _, err := evidence.ReadChain(dir, "journal", filepath.Base(path))
		dir.Close()
		if err != nil {
			s.t.Errorf("%s: %v", path, err)
		}
		done, under := map[string]bool{}, map[string]bool{}
		for _, r := range records {
			var b struct {
				Node, State string
				ExitCode    *int `json:"exit_code"`
			}
			if err := json.Unmarshal(r.Body, &b); err != nil {
				s.t.Fatal(err)
			}
			switch r.Type {
			case "node_started":
				if done[b.Node] || under[b.Node] {
					s.t.Errorf("%s: node %s is run again (record %d)", path, b.Node, r.N)
				}
				under[b.Node] = true
			case "node_ended":
				under[b.Node], done[b.Node] = false, b.State == "exited" && b.ExitCode != nil && *b.ExitCode == 0
			case "torn":
				s.tails++
			}
		}
	}
}

// The daemon is killed at random points of launches, of the steps of workflows
// and of messages. The next one has evidence that verifies, or names what was
// torn; a repeated key has its first answer; nothing runs twice, and what a
// workflow has finished does not run again.
func TestRunKill_AtAnyPointNothingRunsTwiceAndAllOfItVerifies(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.write("roots/wf.toml", "name = \"w\"\nparallel = 2\n[[node]]\nid = \"a\"\nharness = \"counts\"\n[[node]]\nid = \"b\"\nharness = \"counts\"\n[[node]]\nid = \"c\"\nharness = \"counts\"\nneeds = [\"a\", \"b\"]\n")
	h.configure("[server]\nkeep_runs = 100000\nroots = [\""+h.path("roots")+"\"]\n",
		harnessTable("counts", "echo $HARNESS_RUN_ID >>"+h.path("counted"), ""), harnessTable("slow", "exec sleep 600", ""))
	s := &siege{home: h, rnd: rand.New(rand.NewPCG(*killSeed, 5))}
	start, kills := time.Now(), 0
	var before []*asking
	for ; *killPoints == 0 && time.Since(start) < killTime || kills < *killPoints; kills++ {
		d := h.start()
		ctx := t.Context()
		c := s.dial()
		s.verifies(c, 30)
		s.again(before)
		var begun answerOf
		if err := c.Operate(ctx, "harness_run_launch", map[string]any{"name": "slow", "idempotency_key": fmt.Sprint("slow", kills)}, &begun); err != nil {
			t.Fatal(err)
		}
		round := s.plan(begun.Run.ID)
		var wg sync.WaitGroup
		for _, a := range round {
			wg.Go(func() { s.ask(a) })
		}
		time.Sleep(time.Duration(s.rnd.Int64N(int64(120 * time.Millisecond))))
		d.kill()
		wg.Wait()
		c.Close()
		s.asked, before = append(s.asked, round...), round
	}
	h.start()
	c := s.dial()
	defer c.Close()
	s.again(s.asked)
	s.verifies(c, 1<<30)
	s.journals()
	data, err := os.ReadFile(h.path("counted"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if seen[line] {
			t.Errorf("%s ran twice", line)
		}
		seen[line] = true
	}
	replies := 0
	for _, a := range s.asked {
		if a.answer != "" {
			replies++
		}
	}
	receipts, err := filepath.Glob(h.path("state/harness/runs/*/receipts/*-torn.json"))
	t.Logf("%d kills, %d requests (%d answered, asked again %d times), %d processes, %d workflows, %d torn ends named, seed %d, %v",
		kills, len(s.asked), replies, s.resent, len(seen), len(s.flows), s.tails+len(receipts), *killSeed, err)
}
