package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// job is what a load process is asked for.
type job struct {
	Argv    []string // started once for each client
	Clients int
	Lanes   int    // calls in flight for each client
	Tool    string // echo or blob, as the client sees it
	Blob    bool
	Size    int           // of the text in each answer, in bytes
	Warm    time.Duration // before anything is measured
	Span    time.Duration // measured
}

// outcome is what a load process measured.
type outcome struct {
	Calls     int
	PerSecond float64
	P50, P99  float64 // in µs
	Error     string  // of the first answer that was wrong or did not come
}

// load runs a job in a process of its own, so that neither the clients' work
// nor their garbage is the benchmark's.
func load(tb testing.TB, env []string, j job) outcome {
	tb.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Warm+j.Span+2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self(tb), "load")
	cmd.Env, cmd.Stdin, cmd.Stderr = env, bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("load %v: %v", j.Argv, err)
	}
	var o outcome
	if err := json.Unmarshal(out, &o); err != nil {
		tb.Fatal(err)
	}
	if o.Error != "" || o.Calls == 0 {
		tb.Fatalf("load %v: %d calls, %s", j.Argv, o.Calls, o.Error)
	}
	return o
}

// runLoad is the role "load": a job on stdin, an outcome on stdout.
func runLoad([]string) error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clients := make([]*client, j.Clients)
	for i := range clients {
		c, err := launch(ctx, j.Lanes, os.Environ(), j.Argv...)
		if err != nil {
			return err
		}
		defer c.close()
		clients[i] = c
	}
	return json.NewEncoder(os.Stdout).Encode(j.drive(clients))
}

// drive keeps every lane of every client busy.
func (j job) drive(clients []*client) outcome {
	tallies := make([]tally, j.Clients*j.Lanes)
	start := time.Now().Add(j.Warm)
	var wg sync.WaitGroup
	for i := range tallies {
		w := worker{job: j, client: clients[i/j.Lanes], lane: i % j.Lanes, number: i, start: start, end: start.Add(j.Span)}
		wg.Go(func() { tallies[i] = w.run() })
	}
	wg.Wait()
	return sum(tallies, time.Since(start))
}

// tally is what one worker counted.
type tally struct {
	took []time.Duration
	err  error
}

func sum(tallies []tally, span time.Duration) outcome {
	var o outcome
	var micros []float64
	var faults []error
	for _, t := range tallies {
		faults = append(faults, t.err)
		for _, d := range t.took {
			micros = append(micros, float64(d.Nanoseconds())/1e3)
		}
	}
	if err := errors.Join(faults...); err != nil {
		o.Error = err.Error()
	}
	slices.Sort(micros)
	o.Calls, o.PerSecond = len(micros), float64(len(micros))/span.Seconds()
	if len(micros) > 0 {
		o.P50, o.P99 = micros[len(micros)/2], micros[len(micros)*99/100]
	}
	return o
}

// worker makes one call after the other on one lane.
type worker struct {
	job
	client     *client
	lane       int
	number     int // among all workers
	start, end time.Time
	params     []byte
	want       []byte // how the line that answers ends
}

// run calls until the end, or until an answer is wrong. A call counts when it
// began after the start; its time ends when the whole answer was compared.
func (w *worker) run() (t tally) {
	t.took = make([]time.Duration, 0, 1<<14)
	if w.Blob {
		w.prepare(blobText(w.Size), fmt.Sprintf(`{"bytes":%d}`, w.Size))
	}
	filler := blobText(w.Size)
	for n := 0; ; n++ {
		if !w.Blob {
			// No two texts of a run are the same, so that an answer to
			// somebody else's call is noticed.
			text := (strconv.Itoa(w.number) + "." + strconv.Itoa(n) + " " + filler)[:w.Size]
			w.prepare(text, `{"text":"`+text+`"}`)
		}
		began := time.Now()
		if began.After(w.end) && len(t.took) > 0 {
			return t
		}
		line, err := w.client.ask(w.lane, "tools/call", w.params)
		if err == nil && !bytes.HasSuffix(line, w.want) {
			err = fmt.Errorf("call %d of worker %d: wrong answer: %.200s", n, w.number, line)
		}
		if err != nil {
			t.err = err
			return t
		}
		if began.After(w.start) {
			t.took = append(t.took, time.Since(began))
		}
	}
}

// prepare makes the next call and what has to come back: a result passes
// unchanged, so its bytes are known.
func (w *worker) prepare(text, arguments string) {
	w.params = append(append(w.params[:0], `{"name":"`...), w.Tool...)
	w.params = append(append(append(w.params, `","arguments":`...), arguments...), '}')
	w.want = append(append(w.want[:0], `"result":{"content":[{"type":"text","text":"`...), text...)
	w.want = append(w.want, `"}]}}`+"\n"...)
}
