package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"harness/pkg/wire"
)

// answer sends v as JSON. An error means that the client is gone, which is its
// own affair.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// refuse sends why a request was not done.
func refuse(w http.ResponseWriter, p *Problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status())
	_ = json.NewEncoder(w).Encode(p)
}

// reply sends what an operation returned, whichever of the two it was.
func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		refuse(w, problemOf(err))
		return
	}
	answer(w, v)
}

// unknownPath answers for every path and method that this version has not.
func unknownPath(w http.ResponseWriter, r *http.Request) {
	spoken := r.Header.Get(headerAPI)
	if spoken == "" {
		spoken = "an unknown version"
	}
	refuse(w, &Problem{
		Code:    CodeUnknownPath,
		Message: fmt.Sprintf("control API %s has no %s %s (this client speaks %s)", APIVersion(), r.Method, r.URL.Path, spoken),
		Hint:    "restart the daemon with this binary if it is an older one",
	})
}

// decode reads a JSON body into v. No body at all means no wishes. A field that
// is not known is refused, so that a misspelt dry_run is not a real reload.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(v)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return &Problem{Code: wire.InvalidArgument, Message: "read the request: " + wire.Misread(err)}
	}
	return nil
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	status, err := s.ops.Status(r.Context())
	reply(w, status, err)
}

func (s *Server) prompts(w http.ResponseWriter, r *http.Request) {
	prompts, err := s.ops.Prompts(r.Context(), r.URL.Query().Get("project"))
	reply(w, PromptList{Prompts: prompts}, err)
}

func (s *Server) harnesses(w http.ResponseWriter, r *http.Request) {
	answer(w, HarnessList{Harnesses: s.ops.List(r.URL.Query().Get("project"))})
}

func (s *Server) harness(w http.ResponseWriter, r *http.Request) {
	d, err := s.ops.Describe(r.URL.Query().Get("name"))
	reply(w, d, err)
}

func (s *Server) projects(w http.ResponseWriter, _ *http.Request) {
	answer(w, ProjectList{Projects: s.ops.Projects()})
}

func (s *Server) usage(w http.ResponseWriter, _ *http.Request) {
	usage, err := s.ops.Usage()
	reply(w, usage, err)
}

func (s *Server) profiles(w http.ResponseWriter, _ *http.Request) {
	answer(w, ProfileList{Profiles: s.ops.Profiles()})
}

func (s *Server) checkup(w http.ResponseWriter, r *http.Request) {
	checkup, err := s.ops.Checkup(r.Context())
	reply(w, checkup, err)
}

func (s *Server) up(w http.ResponseWriter, r *http.Request) {
	var req UpRequest
	err := decode(w, r, &req)
	if err == nil && !filepath.IsAbs(req.Path) {
		err = &Problem{Code: wire.InvalidArgument, Message: "the path of the project's file must be absolute"}
	}
	if err != nil {
		reply(w, nil, err)
		return
	}
	result, err := s.ops.Up(r.Context(), req)
	reply(w, result, err)
}

func (s *Server) down(w http.ResponseWriter, r *http.Request) {
	var req DownRequest
	if err := decode(w, r, &req); err != nil {
		reply(w, nil, err)
		return
	}
	reply(w, req, s.ops.Down(r.Context(), req.Project))
}

func (s *Server) use(w http.ResponseWriter, r *http.Request) {
	var req UseRequest
	if err := decode(w, r, &req); err != nil {
		reply(w, nil, err)
		return
	}
	result, err := s.ops.Use(r.Context(), req.Profile)
	reply(w, result, err)
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	var req ReloadRequest
	if err := decode(w, r, &req); err != nil {
		reply(w, nil, err)
		return
	}
	result, err := s.ops.Reload(r.Context(), req)
	reply(w, result, err)
}

// units makes a handler of one of the words start, stop and restart.
func (s *Server) units(do func(context.Context, []string) ([]UnitState, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req Names
		err := decode(w, r, &req)
		if err == nil && len(req.Names) == 0 {
			err = &Problem{Code: wire.InvalidArgument, Message: "no name was given", Hint: "name a harness, or mcp.<key>"}
		}
		if err != nil {
			reply(w, nil, err)
			return
		}
		units, err := do(r.Context(), req.Names)
		reply(w, UnitStates{Units: units}, err)
	}
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	req, err := logsRequest(r.URL.Query())
	if err != nil {
		reply(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	stream := newStream(w)
	err = s.ops.Logs(r.Context(), req, stream)
	switch {
	case err == nil || r.Context().Err() != nil:
	case !stream.begun:
		reply(w, nil, err)
	default:
		// Too late for a problem: the reader must not take what it has for all.
		panic(http.ErrAbortHandler)
	}
}

func logsRequest(query url.Values) (LogsRequest, error) {
	req := LogsRequest{Name: query.Get("name")}
	if req.Name == "" {
		return req, &Problem{Code: wire.InvalidArgument, Message: "no name was given", Hint: "name a harness, or mcp.<key>"}
	}
	var err error
	if n := query.Get("n"); n != "" {
		if req.Lines, err = strconv.Atoi(n); err != nil || req.Lines < 0 {
			return req, &Problem{Code: wire.InvalidArgument, Message: "n is not a number of lines"}
		}
	}
	if follow := query.Get("follow"); follow != "" {
		if req.Follow, err = strconv.ParseBool(follow); err != nil {
			return req, &Problem{Code: wire.InvalidArgument, Message: "follow is neither true nor false"}
		}
	}
	return req, nil
}

// events streams what is published from now on, one JSON object a line. A
// reader that falls too far behind is told so and let go (see [Hub]).
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	sub := s.opt.Events.Subscribe()
	defer sub.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	stream := newStream(w)
	if stream.ctl.Flush() != nil { // tells the reader that it is subscribed
		return
	}
	lines := json.NewEncoder(stream)
	for {
		select {
		case <-r.Context().Done():
			return
		case event, more := <-sub.Events:
			if !more && sub.Lagged() {
				event = lagNote(time.Now())
			} else if !more {
				return
			}
			if lines.Encode(event) != nil || !more {
				return
			}
		}
	}
}

// lagNote is the last line of a stream whose reader was too slow.
func lagNote(now time.Time) Event {
	return Event{At: now, Kind: KindLagged, Message: "this reader fell behind and was cut off; events are missing from here on"}
}

// stream writes an answer of unknown length piece by piece: each Write is sent
// at once, and a reader that takes nothing for writeTimeout is given up.
type stream struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	begun bool // something was sent, so the status is out
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, ctl: http.NewResponseController(w)}
}

// Write implements [io.Writer].
func (s *stream) Write(p []byte) (int, error) {
	s.begun = true
	if err := s.ctl.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := s.w.Write(p)
	if err == nil {
		err = s.ctl.Flush()
	}
	if err != nil {
		return n, err
	}
	// The connection may serve another request after this one.
	return n, s.ctl.SetWriteDeadline(time.Time{})
}
