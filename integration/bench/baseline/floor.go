package baseline

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// The floor is the least that our topology can cost: a bridge process per
// client that copies, a Unix socket, and a daemon that gives every request an
// id of its own, so that all clients share one upstream. It trusts everybody,
// checks nothing, waits for slow readers and survives nothing. With a giver in
// the place of the bridge, which hands its own input and output over and copies
// nothing, it is the least that any topology with a shared upstream can cost.

// runFloorBridge is the role [FloorBridge], with a socket.
func runFloorBridge(args []string) error {
	if len(args) != 1 {
		return errors.New("floor-bridge takes a socket")
	}
	conn, err := greet(args[0], nil)
	if err != nil {
		return err
	}
	go func() {
		_ = pump(conn, os.Stdin) // a daemon that is gone ends the other direction too
		_ = conn.CloseWrite()
	}()
	return pump(os.Stdout, conn)
}

// runFloorGiver is the role [FloorGiver], with a socket.
func runFloorGiver(args []string) error {
	if len(args) != 1 {
		return errors.New("floor-giver takes a socket")
	}
	conn, err := greet(args[0], unix.UnixRights(0, 1))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn) // until the daemon is done with the client
	return err
}

// greet connects to the daemon and says, with one byte, what comes with it.
func greet(socket string, rights []byte) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	_, _, err = conn.WriteMsgUnix([]byte{0}, rights, nil)
	return conn, err
}

// pump copies through a buffer; io.Copy would let the kernel splice, which a
// bridge that looks at what it copies cannot do.
func pump(dst io.Writer, src io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if _, failed := dst.Write(buf[:n]); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// floor is the daemon.
type floor struct {
	upstream io.Writer
	writing  sync.Mutex // of upstream

	mu      sync.Mutex
	last    int64
	calls   map[int64]floorCall
	clients map[*floorClient]bool
}

// floorCall is who waits for an answer, and under which id.
type floorCall struct {
	client *floorClient
	id     string
}

// floorClient is one connection.
type floorClient struct {
	conn  *net.UnixConn // to its bridge
	in    io.ReadCloser
	out   io.WriteCloser
	batch []byte // the upstream's reader's: lines that are not written yet
}

// runFloorDaemon is the role [FloorDaemon], with a socket and the command of the
// upstream.
func runFloorDaemon(args []string) error {
	if len(args) < 2 {
		return errors.New("floor-daemon takes a socket and a command")
	}
	cmd := exec.Command(args[1], args[2:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f := &floor{upstream: in, calls: map[int64]floorCall{}, clients: map[*floorClient]bool{}}
	ended := make(chan error, 2)
	go func() { ended <- fmt.Errorf("the upstream ended: %w", f.answers(out)) }()
	go func() { ended <- f.listen(args[0]) }()
	// Its own stdin is how whoever started it ends it.
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	return <-ended
}

func (f *floor) listen(socket string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return err
		}
		go f.serve(conn)
	}
}

// serve serves one client until it ends its input, over its bridge's connection
// or over what came with it.
func (f *floor) serve(conn *net.UnixConn) {
	defer conn.Close()
	c := &floorClient{conn, conn, conn, nil}
	oob := make([]byte, unix.CmsgSpace(2*4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err == nil && n > 0 {
		err = c.take(oob[:n])
	}
	if err != nil {
		return
	}
	defer c.in.Close()
	defer c.out.Close()
	f.join(c, true)
	defer f.join(c, false)
	f.requests(c)
}

// take makes what was handed over the client's input and output.
func (c *floorClient) take(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return err
	}
	var fds []int
	for _, m := range messages {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		fds = append(fds, got...)
	}
	if len(fds) != 2 {
		return fmt.Errorf("%d descriptors were handed over, not 2", len(fds))
	}
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
	}
	c.in, c.out = os.NewFile(uintptr(fds[0]), "input"), os.NewFile(uintptr(fds[1]), "output")
	return nil
}

// requests sends one client's lines on, a batch at a time.
func (f *floor) requests(c *floorClient) {
	in := NewIntake(c.in, 16<<10)
	var batch []byte
	for {
		line, err := in.Next()
		if err != nil {
			return
		}
		if from, to, ok := IDOf(line); ok {
			id := f.enter(floorCall{c, string(line[from:to])})
			batch = withID(batch, line, from, to, strconv.AppendInt(nil, id, 10))
		} else {
			batch = append(batch, line...)
		}
		if !in.Ready() {
			f.writing.Lock()
			_, err = f.upstream.Write(batch)
			f.writing.Unlock()
			batch = batch[:0]
		}
		if err != nil {
			return
		}
	}
}

func (f *floor) join(c *floorClient, here bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if here {
		f.clients[c] = true
	} else {
		delete(f.clients, c)
	}
}

func (f *floor) enter(c floorCall) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.calls[f.last] = c
	return f.last
}

func (f *floor) leave(id int64) (floorCall, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.calls[id]
	delete(f.calls, id)
	return c, ok
}

// answers hands the upstream's lines out: an answer to who asked, and what
// nobody asked for to everybody.
func (f *floor) answers(out io.Reader) error {
	in := NewIntake(out, 64<<10)
	var due []*floorClient
	for {
		line, err := in.Next()
		if err != nil {
			return err
		}
		if from, to, ok := IDOf(line); !ok {
			f.broadcast(line)
		} else if id, ok := Number(line[from:to]); ok {
			if call, ok := f.leave(id); ok {
				if len(call.client.batch) == 0 {
					due = append(due, call.client)
				}
				call.client.batch = withID(call.client.batch, line, from, to, []byte(call.id))
			}
		}
		if in.Ready() {
			continue
		}
		for _, c := range due {
			_, _ = c.out.Write(c.batch) // a client that went away is not waited for
			c.batch = c.batch[:0]
		}
		due = due[:0]
	}
}

func (f *floor) broadcast(line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.clients {
		_, _ = c.out.Write(line)
	}
}
