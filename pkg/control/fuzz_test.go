package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// recorder is a ResponseRecorder that may be given deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetWriteDeadline(time.Time) error { return nil }

// FuzzRequest holds the server to an answer in JSON, or a log, for whatever is
// asked of it.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/v1/reload", `{"dry_run":true,"wait_ms":5000}`)
	f.Add("POST", "/v1/start", `{"names":["mcp.gitea"]}`)
	f.Add("GET", "/v1/logs?name=mcp.a&n=20&follow=true", "")
	f.Add("GET", "/v1/events", "")
	f.Add("GET", "/v1/session", "")
	f.Add("GET", "/v2/status", "")
	ops := &fakeOps{
		status: func(context.Context) (*Status, error) { return &Status{}, nil },
		reload: func(context.Context, ReloadRequest) (*ReloadResult, error) { return &ReloadResult{}, nil },
		logs: func(_ context.Context, _ LogsRequest, w io.Writer) error {
			_, err := io.WriteString(w, "line\n")
			return err
		},
		units: func(_ context.Context, _ string, names []string) ([]UnitState, error) {
			return make([]UnitState, len(names)), nil
		},
	}
	handler := NewServer(ops, Options{Events: &Hub{}}).handler(f.Context())
	f.Fuzz(func(t *testing.T, method, target, body string) {
		// A client that has hung up already ends every stream.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
		if err != nil {
			return
		}
		rec := recorder{httptest.NewRecorder()}
		handler.ServeHTTP(rec, req)
		kind := rec.Header().Get("Content-Type")
		if kind == "application/json" && !json.Valid(rec.Body.Bytes()) {
			t.Errorf("%s %s is answered with %q", method, target, rec.Body)
		}
		if rec.Code >= 400 && kind != "application/json" {
			t.Errorf("%s %s is refused under %d as %q", method, target, rec.Code, kind)
		}
	})
}
