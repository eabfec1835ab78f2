package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"harness/pkg/evidence"
)

// maxSealed bounds what is read of one file that was sealed before a run began,
// in bytes.
const maxSealed = 1 << 20

// sight is what a run's directory has, without the content: whatever is done to
// a file shows here, since nobody sets the time of a change.
type sight struct {
	files   map[string]evidence.Info // by path
	entries string                   // all of it, to be compared
}

// look lists a run's directory. What has no place in it is a fault.
func look(dir *evidence.Dir) (sight, error) {
	s := sight{files: map[string]evidence.Info{}}
	top, err := dir.List()
	if err != nil {
		return s, err
	}
	for _, info := range top {
		if info.Name == receiptsDir || info.Name == tornDir {
			if !info.Mode.IsDir() {
				return s, &evidence.Fault{Entry: info.Name, Message: "not a directory"}
			}
			if err := s.under(dir, info.Name); err != nil {
				return s, err
			}
			continue
		}
		if !slices.Contains([]string{contractFile, catalogFile, cardFile, messagesFile, outputFile, statusFile, finalFile}, info.Name) {
			return s, &evidence.Fault{Entry: info.Name, Message: "not a file of a run"}
		}
		s.files[info.Name] = info
	}
	var b []byte
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		b = s.files[path].Append(append(append(b, path...), ' '))
	}
	s.entries = string(b)
	return s, nil
}

func (s *sight) under(dir *evidence.Dir, name string) error {
	sub, err := dir.Sub(name)
	if err != nil {
		return &evidence.Fault{Entry: name, Message: "not readable"}
	}
	defer sub.Close()
	list, err := sub.List()
	if err != nil {
		return err
	}
	for _, info := range list {
		s.files[name+"/"+info.Name] = info
	}
	return nil
}

// view is a run whose evidence was verified, all of it.
type view struct {
	info     Info
	contract Contract
	records  []evidence.Record
	entries  int // files that were verified
	catalog  []byte
	card     []byte
	output   evidence.Info
	renewed  bool              // what is shown of it was wrong, and was made again
	sums     map[string]string // digests of files that were read, by path
}

// cached is a view, and what the directory was then.
type cached struct {
	entries string
	view    *view
}

// maxCached bounds how many views are kept.
const maxCached = 2000

// view verifies a run, also one that is under way (EVI-3). The error is
// [ErrUnknown], or a [*evidence.Fault].
func (s *Store) view(id string) (*view, error) {
	if !Known(id) {
		return nil, ErrUnknown
	}
	dir, err := s.dir.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, &evidence.Fault{Entry: ".", Message: "the run's directory is not one"}
	}
	defer dir.Close()
	s.mu.Lock()
	r := s.live[id]
	s.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case r.never:
			return nil, ErrUnknown
		case !r.over:
			return r.verify(dir)
		}
	}
	v, err := s.ended(dir, id)
	if err != nil && s.gone(id) {
		return nil, ErrUnknown // it was removed meanwhile
	}
	return v, err
}

// ended verifies a run that is over, unless that was done and nothing of it has
// changed since.
func (s *Store) ended(dir *evidence.Dir, id string) (*view, error) {
	seen, err := look(dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	c := s.read[id]
	s.mu.Unlock()
	if c.view != nil && c.entries == seen.entries {
		return c.view, nil
	}
	v, err := verify(dir, id, seen, s.since, nil)
	if err != nil {
		return nil, err
	}
	if v.renewed {
		s.opt.Log.Warn("status of a run did not say what its evidence says; it was made anew", "run", id)
	}
	if again, err := look(dir); err != nil || again.entries != seen.entries {
		return v, err // its status was made anew; the next look is at that
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read) >= maxCached {
		clear(s.read)
	}
	s.read[id] = cached{seen.entries, v}
	return v, nil
}

// verify is that of a run under way: what is on the disk has to be what was put
// there. The caller holds r.mu.
func (r *Run) verify(dir *evidence.Dir) (*view, error) {
	seen, err := look(dir)
	if err != nil {
		return nil, err
	}
	v, err := verify(dir, r.id, seen, time.Time{}, r.records)
	if err != nil {
		return nil, err
	}
	v.info, err = project(r.contract, v.records, "", r.bytes.Load())
	return v, err
}

// verify checks everything that a run has on the disk (EVI-3). since is when the
// runs were opened, nothing for a run that is under way, whose receipts are
// written. What a file says is checked before what it is: of a run that was never
// sealed all are something else, and that says nothing of which was changed.
func verify(dir *evidence.Dir, id string, seen sight, since time.Time, written []evidence.Record) (*view, error) {
	over := !since.IsZero()
	v := &view{entries: len(seen.files), sums: map[string]string{}}
	data, err := dir.ReadSealed(contractFile, maxSealed)
	if err != nil {
		return nil, err
	}
	if err := evidence.DecodeCanonical(data, &v.contract); err != nil {
		return nil, &evidence.Fault{Entry: contractFile, Message: err.Error()}
	}
	if v.contract.Run != id {
		return nil, &evidence.Fault{Entry: contractFile, Message: "it is the contract of another run"}
	}
	var head evidence.Head
	if v.records, head, err = evidence.ReadChain(dir, receiptsDir, id); err != nil {
		return nil, byName(err, dir, written)
	}
	if !over {
		if err := same(v.records, written); err != nil {
			return nil, err
		}
	}
	for _, r := range v.records {
		v.sums[receiptPath(r)] = r.Stored()
	}
	v.sums[contractFile] = evidence.Digest(data)
	if err := v.binding(dir); err != nil {
		return nil, err
	}
	if err := v.logs(dir, over); err != nil {
		return nil, err
	}
	if err := modes(seen, over); err != nil {
		return nil, err
	}
	if !over {
		return v, nil
	}
	return v, v.final(dir, head, seen, since)
}

// byName gives a receipt that is missing its name, where that can be known: of a
// run that is over, its seal has it.
func byName(err error, dir *evidence.Dir, written []evidence.Record) error {
	f, ok := errors.AsType[*evidence.Fault](err)
	if !ok || !strings.HasSuffix(f.Entry, "*") {
		return err
	}
	number := strings.TrimSuffix(f.Entry, "*")
	var names []string
	for _, r := range written {
		names = append(names, receiptPath(r))
	}
	var seal evidence.Seal
	if data, err := dir.ReadSealed(finalFile, maxSealed); err == nil && json.Unmarshal(data, &seal) == nil {
		names = slices.AppendSeq(names, maps.Keys(seal.Files))
	}
	for _, name := range names {
		if strings.HasPrefix(name, number) {
			return &evidence.Fault{Entry: name, Message: f.Message}
		}
	}
	return err
}

func receiptPath(r evidence.Record) string {
	return receiptsDir + "/" + evidence.EntryName(r.N, r.Type)
}

// same says which of the receipts of a run under way is not as it was written.
func same(have, written []evidence.Record) error {
	for i, r := range written {
		switch {
		case i >= len(have):
			return &evidence.Fault{Entry: receiptPath(r), Message: "missing: it was written"}
		case have[i].Sum != r.Sum:
			return &evidence.Fault{Entry: receiptPath(have[i]), Message: "not the one that was written"}
		}
	}
	if len(have) > len(written) {
		return &evidence.Fault{Entry: receiptPath(have[len(written)]), Message: "added: it was not written"}
	}
	return nil
}

// modes checks what each file is, and that the ones are there that are never
// missing.
func modes(seen sight, over bool) error {
	for _, path := range slices.Sorted(maps.Keys(seen.files)) {
		info := seen.files[path]
		wrong := info.Sealed()
		if path == statusFile || !over && (path == messagesFile || path == outputFile) {
			wrong = info.Open()
		}
		if wrong != "" {
			return &evidence.Fault{Entry: path, Message: wrong}
		}
	}
	for _, path := range []string{contractFile, messagesFile, outputFile} {
		if _, there := seen.files[path]; !there {
			return &evidence.Fault{Entry: path, Message: "missing"}
		}
	}
	if _, there := seen.files[finalFile]; there != over {
		message := map[bool]string{true: "missing: the run is over", false: "the run is not over"}[over]
		return &evidence.Fault{Entry: finalFile, Message: message}
	}
	return nil
}

// binding holds the contract, the catalog and the card against the first
// receipt. A contract of version 1 binds neither of the last two (RES-4).
func (v *view) binding(dir *evidence.Dir) error {
	var first sealedBody
	if len(v.records) == 0 || v.records[0].Type != typeSealed || json.Unmarshal(v.records[0].Body, &first) != nil {
		return &evidence.Fault{Entry: receiptsDir, Message: "the chain does not begin with what was sealed"}
	}
	if first.ContractSHA256 != v.sums[contractFile] {
		return &evidence.Fault{Entry: contractFile, Message: "not as it was sealed"}
	}
	if v.legacy() {
		return nil
	}
	if v.contract.Version != contractVersion || v.contract.Schema != contractSchema {
		return &evidence.Fault{Entry: contractFile, Message: "a contract of a version that is not known"}
	}
	for _, f := range []struct {
		name           string
		sealed, stated string
		data           *[]byte
	}{{catalogFile, first.CatalogSHA256, v.contract.CatalogSHA256, &v.catalog}, {cardFile, first.CardSHA256, v.contract.CardSHA256, &v.card}} {
		data, err := dir.ReadSealed(f.name, maxSealed)
		if err != nil {
			return err
		}
		sum := evidence.Digest(data)
		if v.sums[f.name] = sum; sum != f.sealed || sum != f.stated {
			return &evidence.Fault{Entry: f.name, Message: "not as it was sealed"}
		}
		*f.data = data
	}
	return nil
}

// legacy reports whether the contract is of the version that bound no catalog.
func (v *view) legacy() bool { return v.contract.Version == 1 }

// logs checks the messages against their receipts. The output has a digest once
// it is sealed.
func (v *view) logs(dir *evidence.Dir, over bool) error {
	data, info, err := dir.Read(messagesFile, 2*maxMessageLog)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &evidence.Fault{Entry: messagesFile, Message: "missing"}
	case err != nil:
		return &evidence.Fault{Entry: messagesFile, Message: cmp.Or(info.Sealed(), "not readable")}
	}
	v.sums[messagesFile] = evidence.Digest(data)
	rest, err := splitMessages(data, v.records)
	if err == nil && len(rest) > 0 {
		err = &evidence.Fault{Entry: messagesFile, Message: "it has a message without a receipt", Torn: !over && !bytes.HasSuffix(rest, []byte("\n"))}
	}
	return err
}

// final checks the final receipt, and what is shown of the run.
func (v *view) final(dir *evidence.Dir, head evidence.Head, seen sight, since time.Time) error {
	data, err := dir.ReadSealed(finalFile, maxSealed)
	if err != nil {
		return err
	}
	files, err := digests(dir, seen, v.sums)
	if err != nil {
		return err
	}
	if _, err := evidence.CheckSeal(finalFile, data, v.contract.Run, head, files); err != nil {
		return err
	}
	v.output = seen.files[outputFile]
	if v.info, err = project(v.contract, v.records, evidence.Digest(data), v.output.Size); err != nil {
		return &evidence.Fault{Entry: receiptsDir, Message: err.Error()}
	}
	if !Over(v.info.State) {
		return &evidence.Fault{Entry: finalFile, Message: "it seals a run that is not over"}
	}
	return v.shown(dir, since)
}

// shown holds status.json against the rest. It is made again where it is gone, and
// where it was wrong before the runs were opened: it is then what a crash left, or
// what somebody wrote while nobody looked. One that names another final receipt
// says that this was replaced.
func (v *view) shown(dir *evidence.Dir, since time.Time) error {
	have, info, err := dir.Read(statusFile, maxSealed)
	if errors.Is(err, fs.ErrNotExist) {
		return writeStatus(v.info, dir.Replace)
	}
	want, encodeErr := json.Marshal(stored{Info: v.info})
	right := err == nil && encodeErr == nil && bytes.Equal(have, append(want, '\n'))
	if right {
		return nil
	}
	final := promised(have)
	if err != nil || info.Changed >= since.UnixNano() || final != "" && final != *v.info.FinalReceiptSHA256 {
		return &evidence.Fault{Entry: statusFile, Message: "it does not say what the evidence says"}
	}
	v.renewed = true
	return writeStatus(v.info, dir.Replace)
}

// promised is the digest of the final receipt that a status names, "" for none.
func promised(status []byte) string {
	var s stored
	if json.Unmarshal(status, &s) != nil || s.FinalReceiptSHA256 == nil {
		return ""
	}
	return *s.FinalReceiptSHA256
}

// Info returns what is known of one run, verified.
func (s *Store) Info(id string) (Info, error) {
	v, err := s.view(id)
	if err != nil {
		return Info{}, named(id, err)
	}
	return v.info, nil
}

// named says of which run an entry is.
func named(id string, err error) error { return evidence.Within(runsDir+"/"+id, err) }

// Verify checks all evidence of a run, and returns how many entries it has. What
// is wrong is a [*evidence.Fault] whose entry is a path in the run's directory.
func (s *Store) Verify(id string) (entries int, err error) {
	s.mu.Lock()
	delete(s.read, id) // whoever asks for it gets it
	s.mu.Unlock()
	v, err := s.view(id)
	if err != nil {
		return 0, err
	}
	return v.entries, nil
}

// Messages lists the messages of a run, without their bodies.
func (s *Store) Messages(id string) ([]Message, error) {
	v, err := s.view(id)
	if err != nil {
		return nil, named(id, err)
	}
	return messagesOf(id, v.records)
}

// Receipt is one receipt as it is shown: never what a message says.
type Receipt struct {
	N              int       `json:"n"`
	Type           string    `json:"type"`
	At             time.Time `json:"at"`
	Actor          *Actor    `json:"actor"`
	CorrelationID  *string   `json:"correlation_id"`
	Bytes          int       `json:"bytes"` // of the receipt as it is stored
	SHA256         string    `json:"sha256"`
	PrevSHA256     string    `json:"prev_sha256"`
	RedactionState string    `json:"redaction_state"`
}

// Receipts lists the receipts of a run.
func (s *Store) Receipts(id string) ([]Receipt, error) {
	v, err := s.view(id)
	if err != nil {
		return nil, named(id, err)
	}
	list := []Receipt{}
	for _, r := range v.records {
		var body struct {
			Actor         *Actor  `json:"actor"`
			CorrelationID *string `json:"correlation_id"`
		}
		_ = json.Unmarshal(r.Body, &body) // what is not there is null
		data, err := evidence.Canonical(r)
		if err != nil {
			return nil, err
		}
		list = append(list, Receipt{r.N, r.Type, r.At, body.Actor, body.CorrelationID, len(data), evidence.Digest(data), r.Prev, "body_omitted"})
	}
	return list, nil
}

// The ways in which a run can be bound to the commands that it knew (RES-4).
const (
	Verified = "verified"
	Legacy   = "legacy-no-command-binding"
)

// Context is what a run knew of the commands.
type Context struct {
	Run            string  `json:"run"`
	Binding        string  `json:"binding"` // verified, or legacy-no-command-binding
	LaunchContract int     `json:"launch_contract"`
	Role           *string `json:"role"`
	CatalogSHA256  *string `json:"catalog_sha256"`
	CardSHA256     *string `json:"card_sha256"`
	// RunningCatalogSHA256 is that of the program that answers, Drift whether it
	// is another than the one that was sealed.
	RunningCatalogSHA256 string `json:"running_catalog_sha256"`
	Drift                bool   `json:"drift"`
}

// Context returns how a run is bound to the commands.
func (s *Store) Context(id string) (Context, error) {
	v, err := s.view(id)
	if err != nil {
		return Context{}, named(id, err)
	}
	c := Context{Run: id, Binding: Verified, LaunchContract: v.contract.Version, Role: v.contract.Role, RunningCatalogSHA256: s.opt.Knowledge.CatalogSHA256}
	if v.legacy() {
		c.Binding, c.Drift = Legacy, true
		return c, nil
	}
	c.CatalogSHA256, c.CardSHA256 = &v.contract.CatalogSHA256, &v.contract.CardSHA256
	c.Drift = v.contract.CatalogSHA256 != c.RunningCatalogSHA256
	return c, nil
}

// Card returns the card that was sealed with a run, "" for one of version 1.
func (s *Store) Card(id string) (string, error) {
	v, err := s.view(id)
	if err != nil {
		return "", named(id, err)
	}
	return string(v.card), nil
}

// Transcript returns at most Page bytes of a run's output from offset on, and
// the offset of what follows, 0 at the end.
func (s *Store) Transcript(id string, offset int64) (text []byte, next int64, err error) {
	if r, live := s.Live(id); live {
		_, _ = r.output.settle(settleWithin) // what is not there yet comes with the next page
	}
	if _, err := s.view(id); err != nil {
		return nil, 0, named(id, err)
	}
	f, _, err := s.dir.OpenFile(id + "/" + outputFile)
	if err != nil {
		return nil, 0, fmt.Errorf("read the run: %w", err)
	}
	defer f.Close()
	text = make([]byte, Page)
	n, err := f.ReadAt(text, max(offset, 0))
	switch {
	case err == nil:
		text = wholeRunes(text[:n])
		return text, max(offset, 0) + int64(len(text)), nil
	case errors.Is(err, io.EOF):
		return text[:n], 0, nil
	default:
		return nil, 0, fmt.Errorf("read the run: %w", err)
	}
}

// wholeRunes returns text without the beginning of a character that the next
// page has the rest of.
func wholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}

// Follow writes a run's output to w as it comes, until the run has ended or ctx
// does.
func (s *Store) Follow(ctx context.Context, id string, w io.Writer) error {
	if !Known(id) {
		return ErrUnknown
	}
	f, _, err := s.dir.OpenFile(id + "/" + outputFile)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrUnknown
	}
	if err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	defer f.Close()
	var over <-chan struct{}
	if r, live := s.Live(id); live {
		over = r.done
	} else {
		over = closed()
	}
	look := time.NewTicker(followEvery)
	defer look.Stop()
	for last := false; ; {
		if _, err := io.Copy(w, f); err != nil || last {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			last = true
		case <-look.C:
		}
	}
}

// followEvery is how often what is followed is looked at.
const followEvery = 50 * time.Millisecond

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Live returns a run that is under way.
func (s *Store) Live(id string) (*Run, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.live[id]
	return r, r != nil
}

// Has reports whether there is evidence of a run that was begun, also such as
// cannot be believed.
func (s *Store) Has(id string) bool { return Known(id) && !s.gone(id) }
