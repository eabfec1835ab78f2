package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thejerf/suture/v4"
)

// service is a service of a stage.
type service struct {
	serve func(ctx context.Context) error
	runs  atomic.Int32
}

func (*service) String() string { return "worker" }

// Serve implements [suture.Service].
func (s *service) Serve(ctx context.Context) error {
	s.runs.Add(1)
	return s.serve(ctx)
}

func TestStage_OutlivesItsContextAndEndsWithStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &service{serve: func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return ctx.Err() }}
		s := begin(ctx, "stage", slog.New(slog.DiscardHandler), w)
		cancel()
		time.Sleep(time.Minute)
		select {
		case <-s.done:
			t.Fatal("it ended with the context")
		default:
		}
		begun := time.Now()
		s.stop(time.Minute)
		if took := time.Since(begun); took != time.Second || len(s.failed) != 0 {
			t.Errorf("stopped after %v, failures %d", took, len(s.failed))
		}
	})
}

func TestStage_IsNotWaitedForLongerThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := &service{serve: func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Hour); return ctx.Err() }}
		s := begin(t.Context(), "upstreams", slog.New(slog.NewTextHandler(&log, nil)), w)
		begun := time.Now()
		s.stop(70 * time.Second)
		if took := time.Since(begun); took != 70*time.Second || !strings.Contains(log.String(), "stage=upstreams") {
			t.Errorf("given up after %v: %s", took, &log)
		}
		<-s.done
	})
}

func TestStage_StartsAServiceAgainAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := &service{}
		w.serve = func(ctx context.Context) error {
			if w.runs.Load() == 1 {
				panic("a bug")
			}
			<-ctx.Done()
			return ctx.Err()
		}
		s := begin(t.Context(), "stage", slog.New(slog.NewTextHandler(&log, nil)), w)
		synctest.Wait()
		s.stop(time.Minute)
		if text := log.String(); w.runs.Load() != 2 || len(s.failed) != 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, `value="a bug"`) || !strings.Contains(text, "service=worker") {
			t.Errorf("%d runs, log: %s", w.runs.Load(), text)
		}
	})
}

func TestStage_FailsWhenAServiceCannotBeKeptRunning(t *testing.T) {
	reasons := map[string]func(context.Context) error{
		"it panics":            func(context.Context) error { panic("a bug") },
		"it returns":           func(context.Context) error { return errors.New("no") },
		"it ends for good":     func(context.Context) error { return suture.ErrTerminateSupervisorTree },
		"it ends for a reason": func(context.Context) error { return errors.Join(suture.ErrTerminateSupervisorTree, errors.New("no")) },
	}
	for name, serve := range reasons {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begin(t.Context(), "engine", slog.New(slog.DiscardHandler), &service{serve: serve})
				if err := <-s.failed; !strings.Contains(err.Error(), "engine") {
					t.Errorf("it failed with %v", err)
				}
				s.stop(time.Minute)
			})
		})
	}
}
