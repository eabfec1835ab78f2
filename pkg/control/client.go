package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ErrUnreachable is wrapped by every error that means that no daemon answers on
// the socket: nothing listens, or there is no such file (CLI-2: exit 3).
var ErrUnreachable = errors.New("daemon unreachable")

// Client speaks to one daemon. It is safe for use by many goroutines.
type Client struct {
	socket string
	http   *http.Client
	info   VersionInfo
}

// Dial connects to the daemon on a socket and checks that both speak the same
// major of the interface (CLI-5). The caller must close the client.
func Dial(ctx context.Context, socket string) (*Client, error) {
	c := &Client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
	}}}
	if err := c.call(ctx, http.MethodGet, "/v1/version", nil, &c.info); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Daemon returns who answered when the client was made.
func (c *Client) Daemon() VersionInfo { return c.info }

// Status returns the daemon's state.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return fetch[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Reload asks for a pass over all files. A refusal is a result that is not OK.
func (c *Client) Reload(ctx context.Context, req ReloadRequest) (*ReloadResult, error) {
	return fetch[ReloadResult](ctx, c, http.MethodPost, "/v1/reload", req)
}

// Start starts what is named and returns when each runs or its first try has
// failed (CLI-6).
func (c *Client) Start(ctx context.Context, names ...string) ([]UnitState, error) {
	return c.units(ctx, "/v1/start", names)
}

// Stop stops what is named and returns when each is stopped.
func (c *Client) Stop(ctx context.Context, names ...string) ([]UnitState, error) {
	return c.units(ctx, "/v1/stop", names)
}

// Restart stops what is named and starts it again, as Start does.
func (c *Client) Restart(ctx context.Context, names ...string) ([]UnitState, error) {
	return c.units(ctx, "/v1/restart", names)
}

func (c *Client) units(ctx context.Context, path string, names []string) ([]UnitState, error) {
	states, err := fetch[UnitStates](ctx, c, http.MethodPost, path, Names{Names: names})
	if err != nil {
		return nil, err
	}
	return states.Units, nil
}

// List describes the harnesses of one project, or all ("").
func (c *Client) List(ctx context.Context, project string) ([]Harness, error) {
	list, err := fetch[HarnessList](ctx, c, http.MethodGet, "/v1/harnesses?"+url.Values{"project": {project}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return list.Harnesses, nil
}

// Describe returns one harness with its definition.
func (c *Client) Describe(ctx context.Context, name string) (*Description, error) {
	return fetch[Description](ctx, c, http.MethodGet, "/v1/harness?"+url.Values{"name": {name}}.Encode(), nil)
}

// Up has a project up, and returns when each of its harnesses runs or its first
// try has failed (CLI-6).
func (c *Client) Up(ctx context.Context, req UpRequest) (*UpResult, error) {
	return fetch[UpResult](ctx, c, http.MethodPost, "/v1/up", req)
}

// Down stops and forgets a project.
func (c *Client) Down(ctx context.Context, project string) error {
	_, err := fetch[DownRequest](ctx, c, http.MethodPost, "/v1/down", DownRequest{project})
	return err
}

// Projects lists the projects that are up.
func (c *Client) Projects(ctx context.Context) ([]Project, error) {
	list, err := fetch[ProjectList](ctx, c, http.MethodGet, "/v1/projects", nil)
	if err != nil {
		return nil, err
	}
	return list.Projects, nil
}

// Usage says what the daemon and everything that it runs use now.
func (c *Client) Usage(ctx context.Context) (*Usage, error) {
	return fetch[Usage](ctx, c, http.MethodGet, "/v1/usage", nil)
}

// Profiles lists the profiles of the global file.
func (c *Client) Profiles(ctx context.Context) ([]Profile, error) {
	list, err := fetch[ProfileList](ctx, c, http.MethodGet, "/v1/profiles", nil)
	if err != nil {
		return nil, err
	}
	return list.Profiles, nil
}

// Checkup looks for what keeps things from working.
func (c *Client) Checkup(ctx context.Context) (*Checkup, error) {
	return fetch[Checkup](ctx, c, http.MethodGet, "/v1/checkup", nil)
}

// Use has the members of a profile run, and no other profile's.
func (c *Client) Use(ctx context.Context, profile string) (*UseResult, error) {
	return fetch[UseResult](ctx, c, http.MethodPost, "/v1/use", UseRequest{profile})
}

// Prompts lists the prompt files that callers of a project see, or those of none
// ("").
func (c *Client) Prompts(ctx context.Context, project string) ([]PromptInfo, error) {
	list, err := fetch[PromptList](ctx, c, http.MethodGet, "/v1/prompts?"+url.Values{"project": {project}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return list.Prompts, nil
}

// Logs copies a log to w until it ends or, where req follows, until ctx does,
// which is no error then.
func (c *Client) Logs(ctx context.Context, req LogsRequest, w io.Writer) error {
	query := url.Values{"name": {req.Name}, "n": {strconv.Itoa(req.Lines)}, "follow": {strconv.FormatBool(req.Follow)}}
	err := c.copyLog(ctx, "/v1/logs?"+query.Encode(), w)
	switch {
	case !req.Follow:
		return err
	case ctx.Err() != nil:
		return nil //nolint:nilerr // whoever follows a log ends it so
	case err == nil:
		return lost(io.EOF, "the log")
	}
	return err
}

func (c *Client) copyLog(ctx context.Context, path string, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return lost(err, "the log")
	}
	return nil
}

// lost is the error of a stream that ended before it was at its end.
func lost(err error, stream string) error {
	if hungUp(err) {
		return fmt.Errorf("%w: it went away while this read %s", ErrUnreachable, stream)
	}
	return fmt.Errorf("read %s: %w", stream, err)
}

// Events yields what happens from now on, until ctx or the daemon ends or this
// reader was too slow (its last event is then a KindLagged). An error is the
// last value, and wraps [ErrUnreachable] where the daemon ended. subscribed, unless it is nil, is called once nothing that happens
// from then on can be missed.
func (c *Client) Events(ctx context.Context, subscribed func()) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		resp, err := c.send(ctx, http.MethodGet, "/v1/events", nil)
		if err != nil {
			if ctx.Err() == nil {
				yield(Event{}, err)
			}
			return
		}
		defer resp.Body.Close()
		if subscribed != nil {
			subscribed()
		}
		lagged := false
		for decoder := json.NewDecoder(resp.Body); ; {
			var event Event
			err := decoder.Decode(&event)
			if ctx.Err() != nil || lagged && errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = lost(err, "its events")
			}
			if !yield(event, err) || err != nil {
				return
			}
			lagged = event.Kind == KindLagged
		}
	}
}

// fetch makes a call whose answer is a T.
func fetch[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	answer := new(T)
	if err := c.call(ctx, method, path, body, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("read the daemon's answer to %s: %w", path, err)
	}
	return nil
}

// send makes one request and returns its answer if it is a success; the caller
// closes the body.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://harness"+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	req.Header.Set(headerAPI, APIVersion())
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, plain(err, path)
	}
	if err := check(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// plain takes the invented URL out of an error.
func plain(err error, path string) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, refused := errors.AsType[*Problem](err); refused || errors.Is(err, ErrUnreachable) {
		return err
	}
	if hungUp(err) {
		return fmt.Errorf("%w: it went away while it was asked for %s", ErrUnreachable, path)
	}
	return fmt.Errorf("ask the daemon for %s: %w", path, err)
}

// hungUp reports whether the other side closed the connection without an
// answer, as a daemon that is stopping does. For a connection that ends before
// the request is written net/http has an error of its own, without a name.
func hungUp(err error) bool {
	for _, cut := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, cut) {
			return true
		}
	}
	return strings.HasSuffix(err.Error(), "server closed idle connection")
}

// check returns why an answer is no success, or cannot be trusted to be one.
func check(resp *http.Response) error {
	if err := checkServer(resp.Header.Get(headerAPI)); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		return fmt.Errorf("read the daemon's answer: %w", err)
	}
	return parseProblem(resp.Status, body)
}

// dial connects to a socket and makes sure that a process of this user, or
// root's, is behind it: what is said there is nobody else's to hear.
func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	if len(socket) > maxSocketPath {
		return nil, tooLong(socket)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, unreachable(socket, err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("dial %s: not a Unix socket", socket)
	}
	who, err := peerOf(unix)
	if err == nil && who.uid != os.Geteuid() && who.uid != 0 {
		err = fmt.Errorf("the daemon on %s belongs to another user (uid %d)", socket, who.uid)
	}
	if err != nil {
		unix.Close()
		return nil, err
	}
	return unix, nil
}

// unreachable sorts out the errors that mean that there is no daemon.
func unreachable(socket string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: there is no socket %s", ErrUnreachable, socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nothing listens on %s", ErrUnreachable, socket)
	}
	return fmt.Errorf("dial %s: %w", socket, err)
}
