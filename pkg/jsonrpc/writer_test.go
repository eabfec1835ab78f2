package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// pipe returns both ends of a pipe that Go opened.
func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// blockingPipe is pipe with a writing end that blocks, as a process gets it
// from its parent.
func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// socketPair returns both ends of a unix socket.
func socketPair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/s", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

// drained waits for w and checks how that ended.
func drained(t *testing.T, w *Writer, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := w.Drain(ctx); !errors.Is(err, want) {
		t.Errorf("drained with %v, want %v", err, want)
	}
}

// write hands over a batch that must be taken.
func write(t *testing.T, w *Writer, batch string) {
	t.Helper()
	if n, err := w.Write([]byte(batch)); n != len(batch) || err != nil {
		t.Fatalf("wrote %d of %d bytes, error %v", n, len(batch), err)
	}
}

func TestWriter_WritesOnTheSpotWhenNothingWaits(t *testing.T) {
	r, out := pipe(t)
	w := NewWriter(out, WriterOptions{})
	write(t, w, "")
	write(t, w, "a\n")
	write(t, w, "b\n")
	if n, running := queued(w), w.idle != nil; n != 0 || running {
		t.Errorf("%d bytes are queued, drainer running %t", n, running)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "a\nb\n" {
		t.Errorf("read %q, error %v", got, err)
	}
	line := []byte("a line\n")
	if n := testing.AllocsPerRun(100, func() { _, _ = w.Write(line) }); n != 0 {
		t.Errorf("Write allocates %v times", n)
	}
}

// destinations are the kinds of file a Writer may get.
func destinations(t *testing.T) map[string]func() (io.ReadCloser, io.WriteCloser) {
	return map[string]func() (io.ReadCloser, io.WriteCloser){
		"pipe":          func() (io.ReadCloser, io.WriteCloser) { return pipe(t) },
		"blocking pipe": func() (io.ReadCloser, io.WriteCloser) { return blockingPipe(t) },
		"socket":        func() (io.ReadCloser, io.WriteCloser) { return socketPair(t) },
		"no descriptor": func() (io.ReadCloser, io.WriteCloser) { return io.Pipe() },
	}
}

func TestWriter_QueuesWhatIsNotTakenAndReturnsAtOnce(t *testing.T) {
	for name, open := range destinations(t) {
		t.Run(name, func(t *testing.T) {
			r, out := open()
			w := NewWriter(out, WriterOptions{})
			var want bytes.Buffer
			for i := range 200 { // 2 MB, more than any kernel buffer
				batch := strings.Repeat(fmt.Sprintf("line %d\n", i), 1000)
				want.WriteString(batch)
				write(t, w, batch)
			}
			if queued(w) == 0 {
				t.Error("nothing is queued")
			}
			got := make(chan []byte)
			go func() {
				b, _ := io.ReadAll(r)
				got <- b
			}()
			drained(t, w, nil)
			if n := queued(w); n != 0 {
				t.Errorf("%d bytes are queued after all was drained", n)
			}
			_ = out.Close()
			if !bytes.Equal(<-got, want.Bytes()) {
				t.Error("what arrived is not what was sent")
			}
		})
	}
}

func TestWriter_KeepsNothingOfItsCallersBuffer(t *testing.T) {
	r, out := pipe(t)
	w := NewWriter(out, WriterOptions{})
	batch := bytes.Repeat([]byte("a"), 1<<20)
	write(t, w, string(batch))
	if _, err := w.Write(batch); err != nil {
		t.Fatal(err)
	}
	for i := range batch {
		batch[i] = 'b'
	}
	got := make([]byte, 2<<20)
	if _, err := io.ReadFull(r, got); err != nil || bytes.IndexByte(got, 'b') >= 0 {
		t.Errorf("the caller's later bytes arrived, error %v", err)
	}
	drained(t, w, nil)
}

func TestWriter_DeliversConcurrentBatchesWholeAndInOrder(t *testing.T) {
	for name, open := range destinations(t) {
		t.Run(name, func(t *testing.T) {
			r, out := open()
			w := NewWriter(out, WriterOptions{})
			var wg sync.WaitGroup
			const writers, batches = 8, 200
			for id := range writers {
				wg.Go(func() {
					for i := range batches {
						half := fmt.Sprintf("%d %d %s\n", id, i, strings.Repeat("x", i*7))
						if _, err := w.Write([]byte(half + half)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			go func() {
				wg.Wait()
				_ = w.Drain(context.Background())
				_ = out.Close()
			}()
			next, lines := map[int]int{}, 0
			in := bufio.NewReader(r)
			for ; ; lines += 2 {
				first, err := in.ReadString('\n')
				if err != nil {
					break
				}
				second, _ := in.ReadString('\n')
				var id, i int
				if _, err := fmt.Sscanf(first, "%d %d", &id, &i); err != nil || first != second || i != next[id] {
					t.Fatalf("read %.20q, then %.20q, want number %d (error %v)", first, second, next[id], err)
				}
				next[id]++
			}
			if lines != 2*writers*batches {
				t.Errorf("read %d lines, want %d", lines, 2*writers*batches)
			}
		})
	}
}

func TestWriter_RefusesABatchOverItsLimitAndGoesOn(t *testing.T) {
	r, out := pipe(t)
	w := NewWriter(out, WriterOptions{Limit: 1000, OnFail: func(err error) { t.Errorf("failed: %v", err) }})
	first := strings.Repeat("a", 100_000) // taken whole: nothing else waits
	write(t, w, first)
	waiting := queued(w)
	if n, err := w.Write([]byte("refused")); n != 0 || !errors.Is(err, ErrBacklog) {
		t.Errorf("took %d bytes, error %v, want %v", n, err, ErrBacklog)
	}
	if queued(w) != waiting {
		t.Errorf("%d bytes are queued, want %d", queued(w), waiting)
	}
	got := make([]byte, len(first))
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	drained(t, w, nil)
	write(t, w, "b")
	if _, err := io.ReadFull(r, got[:1]); err != nil || got[0] != 'b' {
		t.Errorf("read %q, error %v", got[:1], err)
	}
}

// failures collects what OnFail is told.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// once checks that there was exactly one failure, and which.
func (f *failures) once(t *testing.T, want error) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) != 1 || !errors.Is(f.errs[0], want) {
		t.Errorf("failures are %v, want one: %v", f.errs, want)
	}
}

func TestWriter_FailsOnceWhenNobodyReadsAnyMore(t *testing.T) {
	for name, open := range destinations(t) {
		for _, queued := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, queued %t", name, queued), func(t *testing.T) {
				r, out := open()
				var told failures
				w := NewWriter(out, WriterOptions{OnFail: told.add})
				if queued {
					write(t, w, strings.Repeat("x", 1<<20))
				}
				_ = r.Close()
				want := error(syscall.EPIPE)
				if name == "no descriptor" {
					want = io.ErrClosedPipe
				}
				_, _ = w.Write([]byte("x\n")) // found out here, or by the drainer
				drained(t, w, want)
				if _, err := w.Write([]byte("y\n")); !errors.Is(err, want) {
					t.Errorf("error is %v, want %v", err, want)
				}
				told.once(t, want)
			})
		}
	}
}

func TestWriter_CloseDropsWhatIsQueuedAndLeavesNoGoroutine(t *testing.T) {
	for name, open := range destinations(t) {
		t.Run(name, func(t *testing.T) {
			_, out := open()
			w := NewWriter(out, WriterOptions{Stall: time.Hour, OnFail: func(err error) { t.Errorf("failed: %v", err) }})
			write(t, w, strings.Repeat("x", 1<<20))
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if name == "blocking pipe" {
				// Nothing but its reader ends a write that blocks.
				return
			}
			if name == "no descriptor" {
				_ = out.Close()
			}
			drained(t, w, ErrClosed)
			if _, err := w.Write([]byte("x")); !errors.Is(err, ErrClosed) {
				t.Errorf("error is %v, want %v", err, ErrClosed)
			}
			if n := queued(w); n != 0 {
				t.Errorf("%d bytes are queued", n)
			}
			_ = w.Close()
		})
	}
}

func TestWriter_DrainEndsWithItsContext(t *testing.T) {
	_, out := pipe(t)
	w := NewWriter(out, WriterOptions{})
	write(t, w, strings.Repeat("x", 1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
	_ = w.Close()
	drained(t, w, ErrClosed)
}

func TestBatch_GivesEachWriterItsLines(t *testing.T) {
	var batch Batch
	var readers [3]*os.File
	var writers [3]*Writer
	for i := range writers {
		r, out := pipe(t)
		readers[i], writers[i] = r, NewWriter(out, WriterOptions{})
	}
	for round := range 3 { // the second and third use the first's buffers
		kept := batch.Append(writers[0])
		for line := range 4 {
			for i, w := range writers[:2] {
				b := batch.Append(w)
				*b = fmt.Appendf(*b, "%d %d %d\n", round, i, line)
			}
		}
		*kept = append(*kept, "last\n"...)
		_ = batch.Append(writers[2])
		batch.Flush()
		batch.Flush()
		for i, tail := range []string{"last\n", ""} {
			want := fmt.Sprintf("%[1]d %[2]d 0\n%[1]d %[2]d 1\n%[1]d %[2]d 2\n%[1]d %[2]d 3\n", round, i) + tail
			got := make([]byte, len(want))
			if _, err := io.ReadFull(readers[i], got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("writer %d (-want +got):\n%s", i, diff)
			}
		}
	}
}

func TestBatch_TellsWhatWasRefused(t *testing.T) {
	_, out := pipe(t)
	var refused []string
	w := NewWriter(out, WriterOptions{Limit: 10, OnRefuse: func(batch []byte, err error) {
		refused = append(refused, fmt.Sprintf("%s: %v", batch, err))
	}})
	write(t, w, strings.Repeat("x", 1<<20))
	var batch Batch
	flush := func(line string) {
		b := batch.Append(w)
		*b = append(*b, line...)
		batch.Flush()
	}
	flush("a")
	_ = w.Close()
	flush("b")
	drained(t, w, ErrClosed)
	want := []string{"a: " + ErrBacklog.Error(), "b: " + ErrClosed.Error()}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestBatch_DoesNotAllocateOnceItHasBuffers(t *testing.T) {
	_, out := pipe(t)
	w := NewWriter(out, WriterOptions{})
	var batch Batch
	n := testing.AllocsPerRun(100, func() {
		p := batch.Append(w)
		*p = append(*p, "a line\n"...)
		batch.Flush()
	})
	if n != 0 {
		t.Errorf("a batch allocates %v times", n)
	}
}

func TestBatch_HandsLargeBuffersOverWithoutACopy(t *testing.T) {
	r, out := pipe(t)
	w := NewWriter(out, WriterOptions{})
	line := bytes.Repeat([]byte("x"), 1<<20)
	got := make([]byte, len(line))
	var batch Batch
	before := allocated()
	for i := range 50 {
		line[0] = byte(i)
		b := batch.Append(w)
		*b = append(*b, line...)
		batch.Flush()
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, line) {
			t.Fatalf("round %d: what arrived is not what was sent, error %v", i, err)
		}
		drained(t, w, nil)
	}
	if got := allocated() - before; got > 20<<20 {
		t.Errorf("50 MiB written took %d MiB of allocations", got>>20)
	}
}

// queued returns how many bytes were taken and not yet written.
func queued(w *Writer) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting()
}
