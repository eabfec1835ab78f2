package handover

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a session between an agent's pipes and the memory that a bridge would
// have of it.
type rig struct {
	in, out *os.File // the agent's
	mem     *Memory  // the bridge's
	s       *Session
	lines   *bufio.Reader // what the daemon reads
	failed  chan error
}

type tester interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}

func begin(t tester, set Setup, b Bounds) *rig {
	t.Helper()
	stdin, in, err1 := os.Pipe()
	out, stdout, err2 := os.Pipe()
	mem, err3 := NewMemory(set)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	ends, err := Dup(stdin, stdout, nil)
	if err != nil {
		t.Fatal(err)
	}
	rights, err := Rights(ends, mem)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{in: in, out: out, mem: mem, failed: make(chan error, 1)}
	received, err := Receive(sent(t, rights))
	if err != nil {
		t.Fatal(err)
	}
	ends.Close(false)
	stdin.Close()
	stdout.Close()
	if r.s, err = received.Begin(int64(len(set.Input)), int64(len(set.Output)), b, func(err error) { r.failed <- err }); err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewReaderSize(r.s, 16)
	t.Cleanup(func() {
		r.s.Close(false)
		in.Close()
		out.Close()
		mem.Close()
	})
	return r
}

// sent passes a control message through a socket and returns it as received.
func sent(t tester, rights []byte) []byte {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if err := unix.Sendmsg(fds[0], []byte("x"), rights, nil, 0); err != nil {
		t.Fatal(err)
	}
	oob := make([]byte, 256)
	_, n, _, _, err := unix.Recvmsg(fds[1], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return oob[:n]
}

// recovered is what the bridge would find now, in words.
func (r *rig) recovered(t tester) (input string, output string, requests, setUp []string) {
	t.Helper()
	st, err := Recover(r.mem)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(st.Output)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range st.Requests {
		requests = append(requests, fmt.Sprintf("%d %s %s", q.Verb, q.ID, q.Line))
	}
	for _, q := range st.SetUp {
		setUp = append(setUp, fmt.Sprintf("%d %s", q.Verb, q.Line))
	}
	return string(st.Input), string(out), requests, setUp
}

// next returns the next line that the daemon reads.
func (r *rig) next(t tester) []byte {
	t.Helper()
	line, err := r.lines.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(line, []byte("\n"))
}

func (r *rig) consume(t tester) {
	t.Helper()
	if err := r.s.Consume(r.lines.Buffered()); err != nil {
		t.Fatal(err)
	}
}

// TestRecover_KnowsWhatIsUnreadUnansweredAndUnsentAtEveryStep goes through
// sessions at random and looks after each step.
func TestRecover_KnowsWhatIsUnreadUnansweredAndUnsentAtEveryStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.SampledFrom([]string{"", "first\n", "first\nhal"}).Draw(t, "given")
		r := begin(t, Setup{Input: []byte(given), Output: []byte("news\n")}, Bounds{Line: 1 << 20, Waiting: 1 << 20})
		unread, got := given, "" // by the daemon; by the agent
		var waiting, kept, batch []string
		asked := 0
		published := "news\n"
		read := func() {
			if n := len(published) - len(got); n > 0 {
				b := make([]byte, n)
				if _, err := io.ReadFull(r.out, b); err != nil {
					t.Fatal(err)
				}
				got += string(b)
			}
		}
		steps := map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				text := strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length")) + "\n"
				if _, err := io.WriteString(r.in, text); err != nil {
					t.Fatal(err)
				}
				unread += text
			},
			"ask": func(t *rapid.T) {
				if !strings.Contains(unread, "\n") {
					return
				}
				line := r.next(t)
				id := fmt.Sprintf("%q", strings.Repeat("i", rapid.SampledFrom([]int{1, 90, 200}).Draw(t, "id"))+fmt.Sprint(asked))
				asked++
				v := Verb(rapid.IntRange(0, int(Unsubscribe)).Draw(t, "verb"))
				if err := r.s.Ask([]byte(id), v, line, r.lines.Buffered()); err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprintf("%d %s ", v, id)
				if v.sets() {
					text += string(line)
				}
				waiting = append(waiting, text)
				// Not consumed: the line is read again, and no request.
				if input, _, requests, _ := r.recovered(t); !strings.HasPrefix(input, string(line)+"\n") || slices.Contains(requests, waiting[len(waiting)-1]) {
					t.Fatal("consumed too early")
				}
				r.consume(t)
				unread = unread[len(line)+1:]
			},
			"answer": func(t *rapid.T) {
				if len(waiting) == 0 {
					return
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				parts := strings.SplitN(waiting[i], " ", 3)
				well := rapid.Bool().Draw(t, "well")
				if rapid.IntRange(0, 9).Draw(t, "cancelled") == 0 {
					r.s.Forget([]byte(parts[1]))
					waiting = slices.Delete(waiting, i, i+1)
					return
				}
				line := "answer to " + parts[1] + "\n"
				batch = append(batch, line)
				end := len(strings.Join(batch, ""))
				if !r.s.Answered([]byte(parts[1]), end, well) {
					t.Fatal("nobody asked")
				}
				// Answered, but not published: still a request without an answer.
				if _, _, requests, _ := r.recovered(t); !slices.Contains(requests, waiting[i]) {
					t.Fatal("answered too early")
				}
				if err := r.s.Publish([]byte(strings.Join(batch, ""))); err != nil {
					t.Fatal(err)
				}
				published += strings.Join(batch, "")
				batch = nil
				if well && parts[0] >= fmt.Sprint(Greet) {
					kept = append(kept, parts[0]+" "+parts[2])
				}
				waiting = slices.Delete(waiting, i, i+1)
			},
			"read": func(*rapid.T) { read() },
			"": func(t *rapid.T) {
				input, output, requests, setUp := r.recovered(t)
				// What is in the pipe still is not the memory's.
				if want := unread; !strings.HasPrefix(want, input) {
					t.Fatalf("unread %q, want a beginning of %q", input, want)
				}
				if output != "" && output != published[len(got):] {
					t.Fatalf("unsent %q of %q", output, published)
				}
				if diff := cmp.Diff([][]string{waiting, kept}, [][]string{requests, setUp}, equalEmpty()); diff != "" {
					t.Fatal(diff)
				}
			},
		}
		if err := r.s.Publish(nil); err != nil {
			t.Fatal(err)
		}
		t.Repeat(steps)
		read()
		if got != published {
			t.Fatalf("got %q, want %q", got, published)
		}
		r.s.Close(false)
		input, _, _, _ := r.recovered(t)
		r.in.Close()
		// All that the daemon did not act on is in the memory, or still in the pipe.
		if !strings.HasPrefix(unread, input) {
			t.Fatalf("unread %q, want a beginning of %q", input, unread)
		}
	})
}

// A list was shown when the output that holds it was published, whenever the
// daemon ends: the agent is told what is different from it (MCP-3).
func TestRecover_KnowsWhichListWasShownLast(t *testing.T) {
	r := begin(t, Setup{Shown: [Lists]uint64{1, 8}}, Bounds{Line: 1 << 20, Waiting: 1 << 20})
	want := [Lists]uint64{1, 8}
	look := func(when string) {
		t.Helper()
		st, err := Recover(r.mem)
		if err != nil || st.Shown != want {
			t.Errorf("%s: %v, %v", when, st, err)
		}
	}
	look("as it came")
	for sum := uint64(2); sum < 5; sum++ {
		r.s.Listed(0, sum)
		look("in no batch that was published")
		if err := r.s.Publish([]byte("list\n")); err != nil {
			t.Fatal(err)
		}
		want[0] = sum
		look("published")
		r.s.mem.table.list(0, 100+sum, r.s.out.published+1)
		look("noted, and the daemon was killed before it was published")
	}
}

func equalEmpty() cmp.Option {
	return cmp.FilterValues(func(a, b []string) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())
}

func TestRecover_FindsWhatWasReadAndNotCounted(t *testing.T) {
	r := begin(t, Setup{}, Bounds{Line: 1 << 20, Waiting: 1 << 20})
	io.WriteString(r.in, "counted\n")
	r.next(t)
	// As if the daemon had been killed behind the read.
	if err := r.mem.write([]byte("not counted\nhal"), inputAt+int64(len("counted\n"))); err != nil {
		t.Fatal(err)
	}
	r.consume(t)
	if input, _, _, _ := r.recovered(t); input != "not counted\nhal" {
		t.Errorf("got %q", input)
	}
}

func TestIntake_KeepsTheBeginningOfALineThatIsTooLong(t *testing.T) {
	const limit = 1000
	r := begin(t, Setup{}, Bounds{Line: limit, Waiting: 1 << 20})
	long := strings.Repeat("z", 10*slack)
	go io.WriteString(r.in, long+"\nnext\n")
	read := make([]byte, 8<<10)
	for n := 0; n < 9*slack; {
		got, err := r.s.Read(read)
		if err != nil {
			t.Fatal(err)
		}
		n += got
	}
	input, _, _, _ := r.recovered(t)
	if len(input) < limit+slack || len(input) > limit+3*slack || strings.Trim(input, "z") != "" {
		t.Errorf("%d bytes of it", len(input))
	}
}

func TestOutlet_SendsWhatTheAgentDidNotTakeAtOnce(t *testing.T) {
	r := begin(t, Setup{}, Bounds{Waiting: 64 << 20})
	var want bytes.Buffer
	for i := range 20 {
		batch := []byte(strings.Repeat(fmt.Sprint(i), 200<<10) + "\n")
		want.Write(batch)
		if err := r.s.Publish(batch); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(r.out, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes differ: %v", len(got), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.s.Drain(ctx)
	var stat unix.Stat_t
	if err := unix.Fstat(r.mem.fd, &stat); err != nil || stat.Blocks*512 > 3<<20 {
		t.Errorf("%d bytes are kept of what was read: %v", stat.Blocks*512, err)
	}
}

func TestOutlet_EndsWhereTheAgentDoesNotRead(t *testing.T) {
	r := begin(t, Setup{}, Bounds{Waiting: 4 << 20, Stall: 10 * time.Millisecond})
	big := make([]byte, 3<<20)
	if err := r.s.Publish(big); err != nil {
		t.Fatal(err)
	}
	if err := r.s.Publish(big); !errors.Is(err, ErrBacklog) {
		t.Errorf("got %v", err)
	}
	if err := <-r.failed; !errors.Is(err, ErrStalled) {
		t.Errorf("got %v", err)
	}
	if err := r.s.Publish([]byte("x")); !errors.Is(err, ErrStalled) {
		t.Errorf("got %v", err)
	}
}

func TestClose_LeavesNothingToTheDaemon(t *testing.T) {
	r := begin(t, Setup{}, Bounds{Line: 1 << 20, Waiting: 1 << 20})
	io.WriteString(r.in, "one\ntwo\n")
	r.next(t)
	r.s.Close(true)
	if err := r.s.Consume(0); err == nil {
		t.Error("a line was taken from whoever has the session now")
	}
	if err := r.s.Publish([]byte("late\n")); err == nil {
		t.Error("something was published")
	}
	st, err := Recover(r.mem)
	if err != nil || !st.Over || string(st.Input) != "one\ntwo\n" {
		t.Errorf("got %+v, %v", st, err)
	}
}

func TestRevoke_SettlesWhoHasTheSession(t *testing.T) {
	mem, err := NewMemory(Setup{})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	if !mem.Revoke() || mem.table.claim(ownerDaemon) {
		t.Error("two have it")
	}
	if r := begin(t, Setup{}, Bounds{}); r.mem.Revoke() {
		t.Error("it was taken from a daemon at work")
	}
}

func TestReceive_RefusesWhatCannotBeRelied(t *testing.T) {
	open := func(seal int, length int64) int {
		fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		unix.Ftruncate(fd, length)
		unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seal)
		return fd
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ends := []int{int(r.Fd()), int(w.Fd())}
	for name, fds := range map[string][]int{
		"nothing":            {},
		"too few":            ends,
		"a device":           {int(null.Fd()), ends[1], open(seals, size)},
		"a file":             {ends[0], ends[1], int(null.Fd())},
		"not sealed":         {ends[0], ends[1], open(0, size)},
		"may shrink":         {ends[0], ends[1], open(unix.F_SEAL_GROW|unix.F_SEAL_SEAL, size)},
		"may not be written": {ends[0], ends[1], open(seals|unix.F_SEAL_WRITE, size)},
		"short":              {ends[0], ends[1], open(seals, 4096)},
		"of another version": {ends[0], ends[1], open(seals, size)},
	} {
		var rights []byte
		if len(fds) > 0 {
			rights = sent(t, unix.UnixRights(fds...))
		}
		if got, err := Receive(rights); err == nil {
			t.Errorf("%s was taken", name)
			got.Close()
		}
	}
}

func TestRecover_RefusesWhatMakesNoSense(t *testing.T) {
	for word, to := range map[int]int64{
		wordVersion: 9, wordSent: 0, wordPublished: size + 1, wordConsumed: 5, wordRead: outputAt + 1,
		wordReserved: 1, wordSmall: smallSlots + 1, wordLarge: -1, wordSetup: size, wordCutTo: outputAt,
	} {
		mem, err := NewMemory(Setup{Input: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		mem.table.set(word, to)
		if _, err := Recover(mem); !errors.Is(err, ErrMemory) {
			t.Errorf("word %d: %v", word, err)
		}
		mem.Close()
	}
}

func TestDup_TakesPipesAndSocketsAlone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, in := range map[string][3]*os.File{"a device": {file, w, nil}, "stderr is stdout": {r, w, w}} {
		if e, err := Dup(in[0], in[1], in[2]); err == nil {
			t.Errorf("%s was taken", name)
			e.Close(true)
		}
	}
	blocks := func() bool {
		fd, err1 := control(r)
		flags, err2 := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		return errors.Join(err1, err2) == nil && flags&unix.O_NONBLOCK == 0
	}
	unix.SetNonblock(int(r.Fd()), false)
	e, err := Dup(r, w, nil)
	if err != nil || blocks() {
		t.Fatal(err, "it blocks")
	}
	e.Close(true)
	if !blocks() {
		t.Error("it was left as nobody expects it")
	}
}

func TestTake_IsReadAsWritten(t *testing.T) {
	want := Take{Input: 3, Output: 1 << 30}
	line := bytes.TrimSuffix(want.Append(nil), []byte("\n"))
	if got, ok := ParseTake(line); !ok || got != want || !bytes.HasPrefix(line, []byte(Prefix)) {
		t.Errorf("%s is %+v", line, got)
	}
	for _, line := range []string{Hold, takeHead, takeHead + `"x"}`, `{}`} {
		if _, ok := ParseTake([]byte(line)); ok {
			t.Errorf("%s was taken", line)
		}
	}
}
