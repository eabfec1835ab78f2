package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"harness/pkg/evidence"
)

// maxKey bounds an idempotency key, in characters (MUT-1).
const maxKey = 128

// maxResult bounds what is kept of an answer, in bytes.
const maxResult = 1 << 20

// keysDir is the directory of the state directory that the keys are in.
const keysDir = "keys"

// ErrConflict is what is returned for a key that was used with other arguments,
// ErrKey for one that is none.
var (
	ErrConflict = errors.New("this idempotency key was used with other arguments")
	ErrKey      = errors.New("an idempotency key has 1 to 128 characters")
)

// Keys remembers what was asked for under each idempotency key, and what was
// answered: on the disk, before anything is done and before it is answered
// (MUT-1). It is safe for use by many goroutines.
type Keys struct {
	dir *evidence.Dir
	log *slog.Logger

	mu      sync.Mutex
	flights map[string]*flight
}

// flight is a request under way.
type flight struct {
	digest string
	done   chan struct{}
	result json.RawMessage
	err    error
}

// Request is something that is done once.
type Request struct {
	Key       string
	Operation string
	Arguments any // as they are compared, without the key
	Actor     Actor
	// Plan says what it will be called, before anything is done.
	Plan func() string
	// Find looks whether what was planned is there already, of a daemon that
	// ended before it could answer.
	Find func(plan string) (result any, found bool, err error)
	// Do does it. Nothing is kept of an error, unless Find finds what was planned
	// or cannot tell: it may be asked for again.
	Do func(plan string) (result any, err error)
}

type intentBody struct {
	Operation       string `json:"operation"`
	ArgumentsSHA256 string `json:"arguments_sha256"`
	Actor           Actor  `json:"actor"`
	Plan            string `json:"plan"`
}

type resultBody struct {
	Result json.RawMessage `json:"result"`
}

// The types of the records of a key.
const (
	typeIntent = "intent"
	typeResult = "result"
)

// OpenKeys opens the keys of a state directory.
func OpenKeys(state *evidence.Dir, log *slog.Logger) (*Keys, error) {
	dir, err := state.Ensure(keysDir)
	if err != nil {
		return nil, fmt.Errorf("open the idempotency keys: %w", err)
	}
	return &Keys{dir: dir, log: log, flights: map[string]*flight{}}, nil
}

// Close closes the directory. No request may be under way.
func (k *Keys) Close() error { return k.dir.Close() }

// Once does a request, or returns what it gave when it was first done: also
// where that is under way, and across daemons. The result is JSON.
func (k *Keys) Once(ctx context.Context, r Request) (result json.RawMessage, replayed bool, err error) {
	if n := utf8.RuneCountInString(r.Key); n < 1 || n > maxKey || !utf8.ValidString(r.Key) {
		return nil, false, ErrKey
	}
	arguments, err := evidence.Canonical(map[string]any{"operation": r.Operation, "arguments": r.Arguments})
	if err != nil {
		return nil, false, err
	}
	name, digest := evidence.Digest([]byte(r.Key)), evidence.Digest(arguments)
	for {
		k.mu.Lock()
		f := k.flights[name]
		if f == nil {
			f = &flight{digest: digest, done: make(chan struct{})}
			k.flights[name] = f
			k.mu.Unlock()
			return k.fly(name, f, r)
		}
		k.mu.Unlock()
		if f.digest != digest {
			return nil, false, ErrConflict
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		if f.err == nil {
			return f.result, true, nil
		}
		// The first one failed and left nothing; whoever comes next tries.
	}
}

// fly does a request that nobody else is at.
func (k *Keys) fly(name string, f *flight, r Request) (result json.RawMessage, replayed bool, err error) {
	defer func() {
		if f.result, f.err = result, err; f.result == nil && err == nil {
			f.err = errors.New("the request ended in a panic")
		}
		k.mu.Lock()
		delete(k.flights, name)
		k.mu.Unlock()
		close(f.done)
	}()
	head := evidence.Genesis("key " + name)
	intent, head, found, err := recall[intentBody](k, name, head, 1, typeIntent)
	if err != nil {
		return nil, false, err
	}
	if found && intent.ArgumentsSHA256 != f.digest {
		return nil, false, ErrConflict
	}
	if !found {
		intent = intentBody{r.Operation, f.digest, r.Actor, r.Plan()}
		if head, err = k.keep(name, head, typeIntent, intent); err != nil {
			return nil, false, err
		}
	} else if kept, _, done, err := recall[resultBody](k, name, head, 2, typeResult); err != nil || done {
		return kept.Result, true, err
	} else if v, there, err := r.Find(intent.Plan); err != nil || there {
		result, err = k.finish(name, head, v, err)
		return result, true, err
	}
	v, err := r.Do(intent.Plan)
	if err != nil {
		// What is there all the same is what the key stands for: forgotten, it would
		// be done twice.
		if _, there, lost := r.Find(intent.Plan); there || lost != nil {
			return nil, false, err
		}
		return nil, false, errors.Join(err, k.forget(name))
	}
	result, err = k.finish(name, head, v, nil)
	return result, false, err
}

// finish keeps a result before it is answered.
func (k *Keys) finish(name string, head evidence.Head, v any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a result: %w", err)
	}
	_, err = k.keep(name, head, typeResult, resultBody{raw})
	return raw, err
}

// keep writes a record of a key.
func (k *Keys) keep(name string, head evidence.Head, typ string, body any) (evidence.Head, error) {
	e, next, err := head.Append(typ, time.Now(), body)
	if err == nil {
		err = k.dir.Write(name+"-"+e.Name, e.Data)
	}
	if err != nil {
		return head, fmt.Errorf("keep an idempotency key: %w", err)
	}
	return next, nil
}

// recall reads a record of a key. One that is torn was never acted on: it is set
// aside.
func recall[T any](k *Keys, name string, head evidence.Head, n int, typ string) (body T, next evidence.Head, found bool, err error) {
	entry := evidence.EntryName(n, typ)
	data, err := k.dir.ReadSealed(name+"-"+entry, maxResult+evidence.MaxRecord)
	var f *evidence.Fault
	if errors.As(err, &f) && f.Missing() {
		return body, head, false, nil
	}
	if err != nil {
		return body, head, false, evidence.Within(keysDir, err)
	}
	r, next, err := head.Check(evidence.Entry{Name: entry, Data: data})
	if errors.As(err, &f) && f.Torn {
		aside := name + "-" + entry + time.Now().UTC().Format(".20060102T150405.000000000") + ".torn"
		k.log.Warn("torn record of an idempotency key set aside", "aside", keysDir+"/"+aside)
		return body, head, false, k.dir.Rename(name+"-"+entry, k.dir, aside)
	}
	if err == nil {
		err = json.Unmarshal(r.Body, &body)
	}
	if errors.As(err, &f) {
		below := *f
		below.Entry = name + "-" + f.Entry // as it is called there
		err = below.In(keysDir)
	}
	return body, next, err == nil, err
}

// forget takes a key back that nothing came of.
func (k *Keys) forget(name string) error {
	err := k.dir.Discard(name + "-" + evidence.EntryName(1, typeIntent))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
