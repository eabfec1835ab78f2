package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"harness/pkg/evidence"
)

// Launch is what a run is begun with.
type Launch struct {
	ID      string // of [Store.NewID]; "" for a new one
	Harness string
	Bounded bool
	// Argv is the command line, the program by its base name.
	Argv       []string
	Definition string // its digest
	Role       string // "" for none
	Actor      Actor
	Key        string // "" for none
	Prompt     *Prompt
	Timeout    time.Duration // 0 for none
	At         time.Time
}

// Run is one run under way. It is safe for use by many goroutines.
type Run struct {
	store    *Store
	id       string
	contract Contract
	dir      *evidence.Dir

	mu       sync.Mutex // of everything but the output
	ledger   *evidence.Ledger
	records  []evidence.Record
	messages *os.File
	logged   int64 // bytes of messages
	over     bool
	never    bool          // it could not begin
	sealed   Info          // as it ended; of no id where that could not be recorded
	done     chan struct{} // closed when the run is sealed

	out    sync.Mutex
	file   *os.File // of the output; nil once it has ended
	output output
	sum    hash.Hash    // of what was written of it
	bytes  atomic.Int64 // that were taken of it
	cut    bool
}

// Begin seals what a run is launched as. What it returns is on the disk: the
// process may start (EVI-1).
func (s *Store) Begin(l Launch) (*Run, error) {
	if l.ID == "" {
		l.ID = s.NewID(l.At)
	}
	r := &Run{store: s, id: l.ID, contract: s.contract(l), sum: sha256.New(), done: make(chan struct{})}
	r.mu.Lock() // who reads it waits until it is whole
	defer r.mu.Unlock()
	if err := s.enter(r); err != nil {
		return nil, err
	}
	if err := r.create(); err != nil {
		r.over, r.never = true, true
		s.leave(r.id, l.Harness)
		return nil, errors.Join(err, r.abandon())
	}
	s.opt.Changed(r.id)
	return r, nil
}

// contract makes the launch contract.
func (s *Store) contract(l Launch) Contract {
	k := s.opt.Knowledge
	c := Contract{
		Schema: contractSchema, Version: contractVersion, Run: l.ID, Harness: l.Harness, Bounded: l.Bounded, Argv: l.Argv, DefinitionSHA256: l.Definition,
		CatalogSHA256: k.CatalogSHA256, CardSHA256: evidence.Digest(k.Card(l.Role)), Actor: l.Actor, Prompt: l.Prompt, At: l.At.UTC().Round(0),
	}
	if l.Role != "" {
		c.Role = &l.Role
	}
	if l.Key != "" {
		c.IdempotencyKey = &l.Key
	}
	if ms := l.Timeout.Milliseconds(); ms > 0 {
		c.TimeoutMS = &ms
	}
	return c
}

// create makes what a run has on the disk before its process starts. All of it
// is synced at once: a disk that is asked six times answers six times as late.
func (r *Run) create() (err error) {
	contract, err := evidence.Canonical(r.contract)
	if err == nil && len(contract) > maxSealed {
		err = errors.New("it is larger than what is ever read")
	}
	if err != nil {
		return fmt.Errorf("write the run's contract: %w", err)
	}
	if r.dir, err = r.store.dir.Make(r.id); err != nil {
		return fmt.Errorf("make the run's directory: %w", err)
	}
	receipts, err := r.dir.Make(receiptsDir)
	if err != nil {
		return fmt.Errorf("make the run's directory: %w", err)
	}
	r.ledger = evidence.NewLedger(receipts, r.id)
	k := r.store.opt.Knowledge
	var syncs []func() error
	put := func(name string, data []byte) {
		if err == nil {
			var sync func() error
			sync, err = r.dir.Put(name, data)
			syncs = append(syncs, sync)
		}
	}
	put(contractFile, contract)
	put(catalogFile, k.Data)
	put(cardFile, k.Card(orNone(r.contract.Role)))
	if err == nil {
		r.messages, err = r.dir.Create(messagesFile)
	}
	if err == nil {
		r.file, err = r.dir.Create(outputFile)
		r.output.to = summed{r.file, r.sum}
	}
	if err == nil {
		err = r.status()
	}
	if err != nil {
		return fmt.Errorf("write the run's evidence: %w", err)
	}
	first, sync, err := r.ledger.Begin(typeSealed, r.contract.At, sealedBody{r.id, r.contract.Actor, evidence.Digest(contract), r.contract.CatalogSHA256, r.contract.CardSHA256})
	if err != nil {
		return fmt.Errorf("write the run's evidence: %w", err)
	}
	r.records = append(r.records, first)
	if err := evidence.Together(append(syncs, sync, r.dir.Sync, r.store.dir.Sync)...); err != nil {
		return fmt.Errorf("write the run's evidence: %w", err)
	}
	return nil
}

// abandon removes what could not begin.
func (r *Run) abandon() error {
	if r.dir == nil {
		return nil
	}
	r.close()
	return r.store.dir.Remove(r.id)
}

func (r *Run) close() {
	for _, f := range []*os.File{r.messages, r.file} {
		if f != nil {
			f.Close()
		}
	}
	if r.ledger != nil {
		r.ledger.Close()
	}
	r.dir.Close()
}

func orNone(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ID returns the run's id.
func (r *Run) ID() string { return r.id }

// Path returns the directory of a run, for a link.
func (s *Store) Path(id string) string { return s.dir.Name() + "/" + id }

// path returns that of one of the run's files, for its process.
func (r *Run) path(name string) string { return r.dir.Name() + "/" + name }

// Environment is what a run's process is told beside its id (EVI-6): where its
// card, its catalog and its messages are.
func (r *Run) Environment() map[string]string {
	return map[string]string{
		"HARNESS_RUN_ID": r.id, "HARNESS_RUN_CARD": r.path(cardFile), "HARNESS_RUN_CATALOG": r.path(catalogFile), "HARNESS_RUN_MESSAGES": r.path(messagesFile),
	}
}

// Started notes that the process is there.
func (r *Run) Started(at time.Time) error {
	return r.note(func() error { return r.append(typeStarted, at, startedBody{r.contract.Actor}) })
}

// note changes the chain of a run that is not over, and what is shown of it.
func (r *Run) note(change func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return ErrOver
	}
	if err := change(); err != nil {
		return err
	}
	err := r.status()
	r.store.opt.Changed(r.id)
	return err
}

// append adds a receipt. The caller holds r.mu.
func (r *Run) append(typ string, at time.Time, body any) error {
	record, err := r.ledger.Append(typ, at, body)
	if err != nil {
		return err
	}
	r.records = append(r.records, record)
	return nil
}

// Message keeps a message. It is on the disk when it is returned.
func (r *Run) Message(n Note, at time.Time) (Message, error) {
	var sent Message
	err := r.note(func() error {
		list, err := messagesOf(r.id, r.records)
		if err != nil {
			return err
		}
		if n.Type == Ack && !slices.ContainsFunc(list, func(m Message) bool {
			return m.Type == Steer && m.CorrelationID == n.CorrelationID && m.Disposition == Pending
		}) {
			return ErrNoSteer
		}
		data, err := evidence.Canonical(line{n.ID, n.Type, at.UTC().Round(0), n.CorrelationID, n.Actor, n.Body})
		if err != nil {
			return err
		}
		if len(list) >= maxMessages || r.logged+int64(len(data)) > maxMessageLog {
			return ErrFull
		}
		if err := r.enter(data); err != nil {
			return err
		}
		body := messageBody{n.ID, n.Type, n.CorrelationID, n.Actor, len(n.Body), evidence.Digest([]byte(n.Body)), evidence.Digest(data)}
		if err := r.append(typeMessage, at, body); err != nil {
			return err
		}
		list, err = messagesOf(r.id, r.records)
		sent = list[len(list)-1]
		return err
	})
	return sent, err
}

// enter has a line in the log of messages on the disk. The caller holds r.mu.
func (r *Run) enter(line []byte) error {
	_, err := r.messages.Write(line)
	if err == nil {
		err = r.messages.Sync()
	}
	if err != nil {
		// What is there of it would be in the way of every line after it.
		return fmt.Errorf("write a message: %w", errors.Join(err, r.messages.Truncate(r.logged)))
	}
	r.logged += int64(len(line))
	return nil
}

// summed writes to a file, and sums up what it wrote.
type summed struct {
	to  io.Writer
	sum hash.Hash
}

// Write implements [io.Writer].
func (s summed) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.sum.Write(p[:n])
	return n, err
}

// Write keeps what was printed, up to a limit. It always takes all of p, and
// never waits.
func (r *Run) Write(p []byte) (int, error) {
	r.out.Lock()
	defer r.out.Unlock()
	room := limit - r.bytes.Load()
	r.cut = r.cut || int64(len(p)) > room
	if r.file != nil && room > 0 {
		kept := p[:min(int64(len(p)), room)]
		r.bytes.Add(int64(len(kept)))
		r.output.add(kept)
	}
	return len(p), nil
}

// End is how a run ended.
type End struct {
	At     time.Time
	State  string // exited, timed_out, cancelled or failed
	Code   int
	Signal string // by name; "" where Code counts
	Unseen bool   // neither is known
	Reason string
}

// End seals the run: nothing of it changes any more. A second one changes
// nothing.
func (r *Run) End(e End) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	r.over = true
	err := r.seal(e)
	r.close()
	r.mu.Unlock()
	if err != nil {
		r.store.opt.Log.Error("end of a run not recorded", "run", r.id, "error", err)
	}
	r.store.settle(r)
	close(r.done)
	r.store.opt.Changed(r.id)
}

// Done is closed when the run has ended, and its evidence is sealed.
func (r *Run) Done() <-chan struct{} { return r.done }

// Wait returns the run as it ended, also where it was not kept since (keep_runs).
// It returns the error of ctx where that ends first.
func (r *Run) Wait(ctx context.Context) (Info, error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		return Info{}, ctx.Err()
	}
	if r.sealed.ID == "" {
		return r.store.Info(r.id)
	}
	return r.sealed, nil
}

// closeOutput ends the output: nothing is taken of it any more.
func (r *Run) closeOutput() (err error) {
	r.out.Lock()
	file := r.file
	r.file = nil
	r.out.Unlock()
	written, failed := r.output.settle(0)
	r.bytes.Store(written)
	if failed != nil {
		r.cut = true // nothing follows a hole
		r.store.opt.Log.Warn("output of a run not kept", "run", r.id, "error", failed)
	}
	return errors.Join(file.Chmod(0o400), file.Sync(), file.Close())
}

// seal writes the last receipt, and the final one over every file.
func (r *Run) seal(e End) error {
	messages := r.messages
	r.messages = nil
	err := evidence.Together(r.closeOutput, func() error { return errors.Join(messages.Chmod(0o400), messages.Sync(), messages.Close()) })
	if err != nil {
		return fmt.Errorf("seal the output: %w", err)
	}
	end := endedBody{Actor: r.contract.Actor, State: e.State, OutputBytes: r.bytes.Load(), OutputCut: r.cut}
	switch {
	case e.Unseen:
	case e.Signal != "":
		end.Signal = &e.Signal
	default:
		end.ExitCode = &e.Code
	}
	if e.Reason != "" {
		end.Reason = &e.Reason
	}
	if err := r.append(typeEnded, e.At, end); err != nil {
		return err
	}
	return r.finish(e.At, map[string]string{outputFile: hex.EncodeToString(r.sum.Sum(nil))})
}

// finish writes the final receipt. known has the digests of files that need not
// be read.
func (r *Run) finish(at time.Time, known map[string]string) error {
	seen, err := look(r.dir)
	if err != nil {
		return err
	}
	files, err := digests(r.dir, seen, known)
	if err != nil {
		return err
	}
	data, err := evidence.NewSeal(r.id, r.ledger.Head(), at, files, r.records[len(r.records)-1].Body)
	if err != nil {
		return err
	}
	info, err := project(r.contract, r.records, evidence.Digest(data), r.bytes.Load())
	if err != nil {
		return err
	}
	// The seal is on the disk before it is named: where it is named and not there,
	// somebody took it away. What is shown can be made again (EVI-1).
	if err := r.dir.Write(finalFile, data); err != nil {
		return err
	}
	r.sealed = info
	return writeStatus(info, r.dir.ReplaceSynced)
}

// digests returns the digest of each file of a run that is sealed, by path. known
// has those that need not be read.
func digests(dir *evidence.Dir, seen sight, known map[string]string) (map[string]string, error) {
	files := map[string]string{}
	maps.Copy(files, known)
	for path, info := range seen.files {
		if _, there := files[path]; there || path == finalFile || path == statusFile {
			continue
		}
		data, _, err := dir.Read(path, info.Size)
		if err != nil {
			return nil, fmt.Errorf("read what is to be sealed: %w", err)
		}
		files[path] = evidence.Digest(data)
	}
	return files, nil
}

// status replaces what is shown of a run that is not sealed: it can be made again
// from the rest.
func (r *Run) status() error {
	info, err := project(r.contract, r.records, "", r.bytes.Load())
	if err != nil {
		return err
	}
	return writeStatus(info, r.dir.Replace)
}

func writeStatus(info Info, replace func(name, aside string, data []byte) error) error {
	data, err := json.Marshal(stored{Info: info})
	if err != nil {
		return fmt.Errorf("encode a run: %w", err)
	}
	if err := replace(statusFile, statusNew, append(data, '\n')); err != nil {
		return fmt.Errorf("write what is shown of a run: %w", err)
	}
	return nil
}
