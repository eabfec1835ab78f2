package bridge

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/control"
)

// bubble is a bridge whose pipes and daemons are in memory, so that time can be
// exact. It is used within a synctest bubble.
type bubble struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	ended chan error
	said  []string

	mu    sync.Mutex
	why   error         // of every dial
	next  chan net.Conn // or what one of them returns, capacity 1
	dials int
	large []toldLarge
}

// toldLarge is one call of Options.Large.
type toldLarge struct {
	large bool
	at    time.Time
}

func newBubble(t *testing.T, grace time.Duration) *bubble {
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	b := &bubble{t: t, in: in, lines: make(chan string, 1<<12), ended: make(chan error, 1), why: os.ErrNotExist, next: make(chan net.Conn, 1)}
	opt := Options{
		In: stdin, Out: stdout, Version: one, MaxMessage: 1 << 20, StopGrace: grace,
		Say:  func(text string) { b.said = append(b.said, text) },
		Dial: func(context.Context) (net.Conn, error) { return b.dial() },
		Large: func(large bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.large = append(b.large, toldLarge{large, time.Now()})
		},
	}
	go func() {
		err := Run(t.Context(), opt)
		stdout.Close()
		b.ended <- err
	}()
	go read(out, b.lines)
	return b
}

func (b *bubble) send(lines ...string) {
	b.t.Helper()
	if _, err := io.WriteString(b.in, strings.Join(lines, "\n")+"\n"); err != nil {
		b.t.Fatal(err)
	}
}

// getsAfter checks that the agent reads want exactly d from now, and not one
// line before.
func (b *bubble) getsAfter(d time.Duration, want ...string) {
	b.t.Helper()
	if d > 0 {
		time.Sleep(d - time.Nanosecond)
		synctest.Wait()
		if n := len(b.lines); n > 0 {
			b.t.Fatalf("%d lines too early: %s", n, <-b.lines)
		}
		time.Sleep(time.Nanosecond)
	}
	synctest.Wait()
	var got []string
	for len(b.lines) > 0 {
		got = append(got, strings.TrimSuffix(<-b.lines, "\n"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Fatal(diff)
	}
}

// end ends the input and checks that the bridge ends after d.
func (b *bubble) end(d time.Duration) {
	b.t.Helper()
	start := time.Now()
	b.in.Close()
	if err := <-b.ended; err != nil || time.Since(start) != d {
		b.t.Errorf("ended after %v with %v, want %v", time.Since(start), err, d)
	}
}

func (b *bubble) dial() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dials++
	select {
	case conn := <-b.next:
		return conn, nil
	default:
		return nil, b.why
	}
}

// refuse makes every dial fail.
func (b *bubble) refuse(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = why
}

// dialled returns how often the bridge has looked for a daemon.
func (b *bubble) dialled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dials
}

// connect makes the next dial succeed, after the pause since the last one, and
// returns the daemon's end.
func (b *bubble) connect() net.Conn {
	synctest.Wait()
	here, there := net.Pipe()
	b.next <- there
	return here
}

const greetedAlone = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},"serverInfo":{"name":"harness","version":"1"}}}`

func TestTime_WithoutADaemonTheSessionIsThereAndEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		b.send(hello, ready, tools, ask("5", "tools/call"))
		// What is asked behind initialize is answered behind it.
		b.getsAfter(greetWait, greetedAlone, result("1", `{"tools":[]}`))
		b.send(prompts, ask("3", "ping"), ask("4", "resources/templates/list"), ask("9", "resources/list"))
		b.getsAfter(0, result("2", `{"prompts":[]}`), result("3", "{}"), result("4", `{"resourceTemplates":[]}`), result("9", `{"resources":[]}`))
		b.send(`{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"cursor":"x"}}`)
		b.getsAfter(requestWait-greetWait, toolFailure("5", absentText))
		b.getsAfter(greetWait, requestFailure("6", absentText))
		b.end(0)
		if diff := cmp.Diff([]string{"this session has no tools until there is a daemon: " + absentText}, b.said); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTime_ListsAreEmptyOnlyUntilThereWasADaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		b.send(hello, ready, tools)
		b.getsAfter(greetWait, greetedAlone, result("1", `{"tools":[]}`))
		d := b.connect()
		lines := make(chan string, 10)
		go read(d, lines)
		p := &pipePeer{t, d, lines}
		p.answers("initialize", "{}")
		expect(t, lines, []string{ready})
		p.answers("tools/list", `{"tools":["a"]}`)
		b.getsAfter(0, changed("tools"))
		d.Close()
		synctest.Wait()
		b.send(tools)
		b.getsAfter(requestWait, requestFailure("1", absentText))
		b.end(0)
	})
}

// pipePeer is a daemon on a pipe in memory.
type pipePeer struct {
	t     *testing.T
	conn  net.Conn
	lines chan string
}

func (p *pipePeer) answers(method, answer string) {
	p.t.Helper()
	line := next(p.t, p.lines)
	if !strings.Contains(line, `"method":"`+method+`"`) || !strings.Contains(line, `"id":"harness-bridge-`) {
		p.t.Fatal(line)
	}
	id := line[strings.Index(line, `"harness-bridge-`):]
	id = id[:strings.IndexAny(id, ",}")]
	if _, err := io.WriteString(p.conn, result(id, answer)+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func TestTime_RequestsWaitTwoSecondsForADaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		b.send(ask("1", "tools/call"))
		time.Sleep(time.Second)
		b.send(ask("2", "prompts/get"))
		b.getsAfter(time.Second, toolFailure("1", absentText))
		b.getsAfter(time.Second, requestFailure("2", absentText))
		b.end(0)
	})
}

func TestTime_TheEndOfInputWaitsForWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		b.send(hello, ask("1", "tools/call"))
		synctest.Wait()
		b.end(requestWait)
		b.getsAfter(0, greetedAlone, toolFailure("1", absentText))
	})
}

func TestTime_TheEndOfInputIsOverAtTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Second)
		b.send(ask("1", "tools/call"))
		synctest.Wait()
		b.end(time.Second)
		b.getsAfter(0)
	})
}

func TestTime_ADaemonThatNeverAnswersHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		b.send(hello)
		b.getsAfter(greetWait, greetedAlone)
		d := b.connect()
		go io.Copy(io.Discard, d)
		b.send(ask("1", "tools/call"))
		b.getsAfter(requestWait, toolFailure("1", absentText))
		// It is left, and the next one is found.
		dials := b.dialled()
		time.Sleep(greetLimit)
		if b.dialled() == dials {
			t.Error("it was not left")
		}
		b.end(0)
	})
}

func TestTime_ADaemonThatNeverReadsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		b.send(ask("1", "tools/call"))
		b.connect()
		time.Sleep(retryAfter(0))
		synctest.Wait()
		dials := b.dialled()
		// Not a byte was taken, so it waits as if there had been no daemon.
		b.getsAfter(greetLimit, toolFailure("1", absentText))
		time.Sleep(time.Second)
		if b.dialled() == dials {
			t.Error("it was not left")
		}
		b.end(0)
	})
}

func TestTime_SaysWhyADaemonRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		b.refuse(&control.Problem{Code: control.CodeAPIVersion, Message: "the daemon speaks 7.0", Hint: "restart it"})
		const why = "the harness daemon refused this session: the daemon speaks 7.0; restart it"
		b.send(hello, ask("1", "tools/call"))
		b.getsAfter(greetWait, greetedAlone)
		b.getsAfter(requestWait-greetWait, toolFailure("1", why))
		b.end(0)
		if diff := cmp.Diff([]string{"this session has no tools until there is a daemon: " + why}, b.said); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTime_TellsWhenLargeAnswersPassAndWhenThingsAreQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		start := time.Now()
		d := b.connect()
		lines := make(chan string, 10)
		go read(d, lines)
		call := func(size int) {
			b.send(ask("1", "tools/call"))
			next(t, lines)
			answer := result("1", `"`+strings.Repeat("x", size)+`"`)
			if _, err := io.WriteString(d, answer+"\n"); err != nil {
				t.Fatal(err)
			}
			b.getsAfter(0, answer)
		}
		call(10)
		time.Sleep(10 * time.Second)
		call(large)
		time.Sleep(quiet / 2)
		call(large)
		call(10)
		time.Sleep(time.Hour)
		b.end(0)
		d.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		want := []string{"false after 1s", "true after 10s", "false after 11.5s"}
		var got []string
		for _, told := range b.large {
			got = append(got, fmt.Sprintf("%t after %v", told.large, told.at.Sub(start).Round(100*time.Millisecond)))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTime_LooksOftenAtFirstAndSeldomLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, time.Minute)
		time.Sleep(time.Second)
		synctest.Wait()
		early := b.dialled()
		time.Sleep(time.Minute)
		synctest.Wait()
		minute := b.dialled()
		time.Sleep(time.Hour)
		synctest.Wait()
		late := b.dialled() - minute
		if early < 25 || early > 35 || late != 3600 {
			t.Errorf("%d in the first second, %d in an hour", early, late)
		}
		b.end(0)
	})
}
