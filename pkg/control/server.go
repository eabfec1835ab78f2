package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"harness/pkg/wire"
)

// Limits of the HTTP side. They bound what a broken client can hold, not what a
// slow operation may take.
const (
	headerTimeout = 10 * time.Second // to send a request's head
	idleTimeout   = 2 * time.Minute  // between two requests
	writeTimeout  = 30 * time.Second // for one write of a stream to be taken
	maxHeader     = 16 << 10         // bytes
	maxBody       = 1 << 20          // bytes
	closeGrace    = 2 * time.Second  // for answers under way when the server ends
)

// Ops is what the daemon can do for a client. Methods are called by many
// goroutines at once; ctx ends when the client hangs up or the server stops. An
// error that is a [*Problem] reaches the client as it is.
type Ops interface {
	Status(ctx context.Context) (*Status, error)
	// Reload reads the files and puts them in force, or only plans. A file that
	// was refused is a result that is not OK, and no error.
	Reload(ctx context.Context, req ReloadRequest) (*ReloadResult, error)
	// Logs writes log lines as they are in the file. What it writes is on its
	// way to the reader when Write returns.
	Logs(ctx context.Context, req LogsRequest, w io.Writer) error
	Start(ctx context.Context, names []string) ([]UnitState, error)
	Stop(ctx context.Context, names []string) ([]UnitState, error)
	Restart(ctx context.Context, names []string) ([]UnitState, error)
	// Prompts lists the prompt files that callers of a project see, or those of
	// none ("").
	Prompts(ctx context.Context, project string) ([]PromptInfo, error)
	// List describes the harnesses of one project, or all ("").
	List(project string) []Harness
	Describe(name string) (*Description, error)
	// Up and Down take up a project and let go of it. What was refused is a
	// result that is not OK, and no error.
	Up(ctx context.Context, req UpRequest) (*UpResult, error)
	Down(ctx context.Context, project string) error
	Projects() []Project
	// Usage says what the daemon and everything that it runs use now.
	Usage() (*Usage, error)
	Profiles() []Profile
	// Checkup looks for what keeps things from working.
	Checkup(ctx context.Context) (*Checkup, error)
	// Use enables the members of a profile, and disables those of other
	// profiles that are not in it.
	Use(ctx context.Context, profile string) (*UseResult, error)
	// Attach opens a look at a harness's terminal, which the caller closes.
	Attach(req AttachRequest) (Terminal, error)
	// Operate does one of the operations that agents have as tools, or one of
	// those that only the command line has (MUT-1).
	Operate(ctx context.Context, name string, arguments json.RawMessage, peer Peer) (any, error)
	// Output writes what a run prints, until it has ended.
	Output(ctx context.Context, run string, w io.Writer) error
	// ServeSession serves an agent on a connection of its own until the agent
	// is gone or ctx ends, whichever is first. It owns conn and closes it.
	ServeSession(ctx context.Context, conn *net.UnixConn, hello Hello)
}

// Hello is what is known of a session when its connection is handed over.
type Hello struct {
	// Token is what the client presented, "" for none. It proves nothing until
	// it is looked up (WHO-2), and must not be logged.
	Token string
	// PID is the process that connected, as the kernel says.
	PID int
	// Early holds bytes of the session that arrived with the request, usually
	// none. They come before anything that is read from the connection.
	Early []byte
}

// Options are the settings of a server.
type Options struct {
	// Version is the program's own, for GET /v1/version.
	Version string
	// Logger hears of connections that were refused. Required.
	Logger *slog.Logger
	// UID is the user whose processes are let in.
	UID int
	// Events is where GET /v1/events reads. Required.
	Events *Hub
	// Barred says why the process that asks for something does not get it, "" where
	// it does. nil is for everybody of the user.
	Barred func(pid int) string
	// Ready is closed when there is something to serve. Until then requests are
	// taken and wait. nil is for at once.
	Ready <-chan struct{}
}

// Server answers the control interface. It serves once.
type Server struct {
	ops Ops
	opt Options

	mu       sync.Mutex
	ended    bool           // guarded by mu; no session begins any more
	sessions sync.WaitGroup // added to under mu
}

// NewServer makes a server of ops. It starts nothing.
func NewServer(ops Ops, opt Options) *Server { return &Server{ops: ops, opt: opt} }

// String names the service in a supervisor's log.
func (s *Server) String() string { return "control" }

// Serve answers on listener until ctx ends, and then closes it, ends every
// stream, waits for the answers under way for a moment and for every session to
// return. It returns ctx's error, or what broke the listener.
func (s *Server) Serve(ctx context.Context, listener *net.UnixListener) error {
	alive, end := context.WithCancel(ctx)
	defer end()
	server := &http.Server{
		Handler:           s.handler(alive),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return alive },
		ConnContext:       withGuest,
	}
	var err, broken error
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		broken = server.Serve(&guarded{listener, s.opt.UID, s.opt.Logger})
	}()
	select {
	case <-ctx.Done():
		err = ctx.Err()
		s.shutdown(ctx, server)
		<-closed
	case <-closed:
		err = fmt.Errorf("accept control connections: %w", broken)
		server.Close()
	}
	end()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.sessions.Wait()
	return err
}

// shutdown lets answers under way finish within closeGrace, then cuts the rest
// off.
func (s *Server) shutdown(ctx context.Context, server *http.Server) {
	if !s.isReady() { // so there are none
		server.Close()
		return
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		server.Close()
	}
}

// isReady reports whether there is something to serve.
func (s *Server) isReady() bool {
	if s.opt.Ready == nil {
		return true
	}
	select {
	case <-s.opt.Ready:
		return true
	default:
		return false
	}
}

// guestKey carries a request's connection in its context.
type guestKey struct{}

func withGuest(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, conn)
}

// handler routes the requests. alive is what sessions live on: unlike the
// context of their request it outlasts the handler.
func (s *Server) handler(alive context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/version", s.version)
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("POST /v1/reload", s.reload)
	mux.HandleFunc("GET /v1/events", s.events)
	mux.HandleFunc("GET /v1/logs", s.logs)
	mux.HandleFunc("GET /v1/prompts", s.prompts)
	mux.HandleFunc("POST /v1/start", s.units(s.ops.Start))
	mux.HandleFunc("POST /v1/stop", s.units(s.ops.Stop))
	mux.HandleFunc("POST /v1/restart", s.units(s.ops.Restart))
	mux.HandleFunc("GET /v1/harnesses", s.harnesses)
	mux.HandleFunc("GET /v1/harness", s.harness)
	mux.HandleFunc("GET /v1/projects", s.projects)
	mux.HandleFunc("GET /v1/usage", s.usage)
	mux.HandleFunc("POST /v1/up", s.up)
	mux.HandleFunc("POST /v1/down", s.down)
	mux.HandleFunc("GET /v1/profiles", s.profiles)
	mux.HandleFunc("GET /v1/checkup", s.checkup)
	mux.HandleFunc("POST /v1/use", s.use)
	mux.HandleFunc("POST /v1/operations/{name}", s.operate)
	mux.HandleFunc("GET /v1/output", s.output)
	mux.HandleFunc("GET /v1/attach", func(w http.ResponseWriter, r *http.Request) { s.attach(alive, w, r) })
	mux.HandleFunc("GET /v1/session", func(w http.ResponseWriter, r *http.Request) { s.session(alive, w, r) })
	mux.HandleFunc("/", unknownPath)
	return s.whenReady(versioned(s.unbarred(mux)))
}

// whenReady has whoever comes early wait. Who still does when the server ends is
// cut off, as if nobody had listened. Whoever hung up meanwhile, after a request
// with a body, has it carried out.
func (s *Server) whenReady(next http.Handler) http.Handler {
	if s.opt.Ready == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.opt.Ready:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	})
}

// unbarred turns away whoever is not to speak to the daemon.
func (s *Server) unbarred(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, ok := r.Context().Value(guestKey{}).(*guest); ok && s.opt.Barred != nil {
			if why := s.opt.Barred(who.peer.pid); why != "" {
				refuse(w, &Problem{Code: wire.PermissionDenied, Message: why})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// versioned checks the client's version before anything else, and says the
// daemon's with every answer.
func versioned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerAPI, APIVersion())
		if problem := checkVersion(r.Header.Get(headerAPI)); problem != nil {
			refuse(w, problem)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	answer(w, VersionInfo{Version: s.opt.Version, API: APIVersion(), PID: os.Getpid()})
}
