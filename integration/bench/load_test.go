package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"harness/integration/bench/baseline"
)

// job is what a load process is asked for: to keep every lane of every client
// busy, with one contestant at a time.
type job struct {
	Contestants []contestant
	Clients     int
	Lanes       int    // calls in flight for each client
	Tool        string // echo or blob
	Size        int    // of the text in each answer, in bytes
	Rounds      int
	Span        time.Duration // of a round, for each contestant
	Turn        time.Duration // how long one is under load before the next is
}

// contestant is one way to the echo server.
type contestant struct {
	Name   string
	Argv   []string // started once for each client
	Env    []string
	Prefix string // of tool names
	Daemon int    // the process behind all clients; 0 for none
}

// outcome is what a contestant did in one round.
type outcome struct {
	PerSecond float64 // calls
	P50, P99  float64 // in µs
	CPU       float64 // of what is between client and server, in µs for each call
}

// load runs a job in a process of its own, so that neither the clients' work
// nor their garbage is the benchmark's, and returns the rounds of each
// contestant.
func load(tb testing.TB, j job) [][]outcome {
	tb.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		tb.Fatal(err)
	}
	limit := time.Duration(j.Rounds*len(j.Contestants)) * j.Span
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit+2*patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, loadRole)
	var stderr tail
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("load: %v: %s", err, &stderr)
	}
	var rounds [][]outcome
	if err := json.Unmarshal(out, &rounds); err != nil {
		tb.Fatal(err)
	}
	return rounds
}

// runLoad is the role "load": a job on stdin, the rounds on stdout.
func runLoad() error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	crews := make([]*crew, len(j.Contestants))
	for i, c := range j.Contestants {
		var err error
		crews[i], err = enlist(ctx, j, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		defer crews[i].dismiss()
	}
	rounds, err := j.drive(crews)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rounds)
}

// drive lets the crews take turns. The first turn of each only warms up.
func (j job) drive(crews []*crew) ([][]outcome, error) {
	rounds := make([][]outcome, len(crews))
	for _, c := range crews {
		if err := c.turn(j.Turn); err != nil {
			return nil, err
		}
		c.tally = tally{}
	}
	for range j.Rounds {
		for range max(1, j.Span/j.Turn) {
			for _, c := range crews {
				if err := c.turn(min(j.Turn, j.Span)); err != nil {
					return nil, err
				}
			}
		}
		for i, c := range crews {
			rounds[i] = append(rounds[i], c.outcome())
			c.tally = tally{}
		}
	}
	return rounds, nil
}

// crew is the clients of one contestant and who makes calls on them.
type crew struct {
	contestant
	clients []*client
	workers []*worker
	tally   tally
}

// tally is what a crew did in a round so far.
type tally struct {
	took  []float64 // of each call, in µs
	span  time.Duration
	spent time.Duration // of the CPUs
}

// enlist starts the clients of a contestant.
func enlist(ctx context.Context, j job, c contestant) (*crew, error) {
	all := &crew{contestant: c}
	for range j.Clients {
		cl, err := launch(ctx, j.Lanes, c.Env, c.Argv...)
		if err != nil {
			return nil, err
		}
		all.clients = append(all.clients, cl)
		for lane := range j.Lanes {
			w := &worker{client: cl, lane: lane, number: len(all.workers), tool: c.Prefix + j.Tool, blob: j.Tool == "blob", size: j.Size}
			all.workers = append(all.workers, w)
		}
	}
	return all, nil
}

func (c *crew) dismiss() {
	for _, cl := range c.clients {
		cl.close()
	}
}

// turn keeps all workers busy for d.
func (c *crew) turn(d time.Duration) error {
	began, before := time.Now(), c.cpu()
	var wg sync.WaitGroup
	for _, w := range c.workers {
		wg.Go(func() { w.run(began.Add(d)) })
	}
	wg.Wait()
	c.tally.span += time.Since(began)
	c.tally.spent += c.cpu() - before
	var faults []error
	for _, w := range c.workers {
		faults = append(faults, w.err)
		c.tally.took = append(c.tally.took, w.took...)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

func (c *crew) outcome() outcome {
	t, calls := c.tally, float64(len(c.tally.took))
	return outcome{calls / t.span.Seconds(), quantile(t.took, 0.5), quantile(t.took, 0.99), micros(t.spent) / calls}
}

// cpu is what the daemon and the processes of the clients have had so far.
func (c *crew) cpu() time.Duration {
	total := cpuTime(c.Daemon)
	for _, cl := range c.clients {
		total += cpuTime(cl.cmd.Process.Pid)
	}
	return total
}

// cpuTick is the unit of the times in /proc/PID/stat.
const cpuTick = 10 * time.Millisecond

// cpuTime is what a process has had of the CPUs, 0 of one that is not there.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// Fields count from behind the name: 11 and 12 are user and system time.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * cpuTick
}

// worker makes one call after the other on one lane.
type worker struct {
	client *client
	lane   int
	number int // among the workers of a crew
	tool   string
	blob   bool
	size   int

	calls  int       // ever
	took   []float64 // of the calls of this turn, in µs
	err    error     // the first answer that was wrong or did not come
	params []byte
	want   []byte // how the line that answers ends
}

// run calls until the end, at least once. The time of a call ends when the
// whole answer was compared.
func (w *worker) run(end time.Time) {
	w.took = w.took[:0]
	for w.err == nil {
		w.prepare()
		began := time.Now()
		if began.After(end) && len(w.took) > 0 {
			return
		}
		line, err := w.client.ask(w.lane, "tools/call", w.params)
		if err == nil && !bytes.HasSuffix(line, w.want) {
			err = fmt.Errorf("call %d of worker %d: wrong answer: %.200s", w.calls, w.number, line)
		}
		w.took, w.err = append(w.took, micros(time.Since(began))), err
		w.calls++
	}
}

// prepare makes the next call and what has to come back: a result passes
// unchanged, so its bytes are known. No two texts of a crew are the same, so
// that an answer to somebody else's call is noticed.
func (w *worker) prepare() {
	if w.blob && w.calls > 0 {
		return
	}
	text := baseline.BlobText(w.size)
	arguments := fmt.Appendf(nil, `{"bytes":%d}`, w.size)
	if !w.blob {
		text = (strconv.Itoa(w.number) + "." + strconv.Itoa(w.calls) + " " + text)[:w.size]
		arguments = append(append(append(arguments[:0], `{"text":"`...), text...), `"}`...)
	}
	w.params = append(append(w.params[:0], `{"name":"`...), w.tool...)
	w.params = append(append(append(w.params, `","arguments":`...), arguments...), '}')
	w.want = append(append(w.want[:0], `"result":{"content":[{"type":"text","text":"`...), text...)
	w.want = append(w.want, `"}]}}`+"\n"...)
}
