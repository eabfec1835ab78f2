package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"harness/pkg/wire"
)

// maxOperation bounds what is read of the arguments of an operation, in bytes:
// a prompt of 1 MiB as JSON may spell it. How much each takes it says itself
// (MUT-1).
const maxOperation = 7 << 20

// Peer is who asks for an operation, as far as the kernel knows.
type Peer struct {
	PID, UID int
	// Token is what the client presented, "" for none; see [Hello].
	Token string
}

// operate does one operation of those that agents can call too: what they take
// and give is theirs to say.
func (s *Server) operate(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOperation))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		reply(w, nil, &Problem{Code: wire.InvalidArgument, Message: "the request is larger than 7 MiB"})
		return
	}
	if err != nil {
		return // it hung up
	}
	peer := Peer{Token: r.Header.Get(headerToken)}
	if who, ok := r.Context().Value(guestKey{}).(*guest); ok {
		peer.PID, peer.UID = who.peer.pid, who.peer.uid
	}
	v, err := s.ops.Operate(r.Context(), r.PathValue("name"), raw, peer)
	reply(w, v, err)
}

// output streams what a run prints until it has ended.
func (s *Server) output(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	stream := newStream(w)
	err := s.ops.Output(r.Context(), r.URL.Query().Get("run"), stream)
	switch {
	case err == nil || r.Context().Err() != nil:
	case !stream.begun:
		reply(w, nil, err)
	default:
		panic(http.ErrAbortHandler) // too late for a problem
	}
}

// Operate does one operation, and reads what it gave into answer.
func (c *Client) Operate(ctx context.Context, name string, arguments, answer any) error {
	return c.call(ctx, http.MethodPost, "/v1/operations/"+url.PathEscape(name), arguments, answer)
}

// OperateRaw is Operate whose answer is taken as it is.
func (c *Client) OperateRaw(ctx context.Context, name string, arguments any) (json.RawMessage, error) {
	var answer json.RawMessage
	err := c.Operate(ctx, name, arguments, &answer)
	return answer, err
}

// Output copies what a run prints to w until the run or ctx has ended.
func (c *Client) Output(ctx context.Context, run string, w io.Writer) error {
	return c.copyLog(ctx, "/v1/output?"+url.Values{"run": {run}}.Encode(), w)
}
