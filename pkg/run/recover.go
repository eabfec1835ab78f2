package run

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"harness/pkg/evidence"
)

// recover ends the runs that a daemon left that was killed: their processes
// ended with it (LIF-4). It names what a crash tore, and leaves alone what is
// wrong otherwise.
func (s *Store) recover(now time.Time) {
	for _, id := range slices.Clone(s.all) {
		done, err := s.recovered(id, now)
		if err == nil && done {
			continue
		}
		if err != nil {
			s.opt.Log.Error("a run that had not ended cannot be sealed: its evidence is not valid", "run", id, "error", err)
			continue
		}
		s.opt.Log.Warn("a run had not ended when an earlier daemon did; it is sealed as failed", "run", id)
	}
}

// surely is for how long a final receipt is looked at for having been torn.
const surely = 24 * time.Hour

// recovered seals a run that is not. It reports whether there was nothing to do.
func (s *Store) recovered(id string, now time.Time) (done bool, err error) {
	if final, err := s.dir.Stat(id + "/" + finalFile); err == nil && final.Size > 0 && now.UnixNano()-final.Modified > int64(surely) {
		return true, nil
	}
	dir, err := s.dir.Sub(id)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if final, err := tail(dir, finalFile); err == nil && !evidence.IsTorn(final) {
		return true, nil
	}
	// A final receipt is on the disk before anything names it: this run was over.
	if status, _, err := dir.Read(statusFile, maxSealed); err == nil && promised(status) != "" {
		return false, &evidence.Fault{Entry: finalFile, Message: "missing, or not as it was written: " + statusFile + " names it"}
	}
	if !s.began(dir, id) {
		return true, s.aside(id)
	}
	if err := dir.Discard(statusNew); err != nil {
		return false, err
	}
	ledger, records, torn, err := evidence.OpenLedger(dir, receiptsDir, id, now)
	if err != nil {
		return false, err
	}
	if torn != nil {
		s.opt.Log.Warn("torn receipt set aside", "run", id, "entry", torn.Entry, "aside", torn.Aside)
	}
	r := &Run{store: s, id: id, dir: dir, ledger: ledger, records: records}
	defer ledger.Close()
	if r.contract, err = s.contractOf(id); err != nil {
		return false, err
	}
	if err := r.setAsideLogs(now); err != nil {
		return false, err
	}
	return false, r.sealUnseen(now)
}

// tail returns the end of a file.
func tail(dir *evidence.Dir, name string) ([]byte, error) {
	f, info, err := dir.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, min(info.Size, 2))
	_, err = f.ReadAt(b, info.Size-int64(len(b)))
	return b, err
}

// began reports whether a run was sealed, and so may have had a process. A
// receipt that is there and torn was not.
func (s *Store) began(dir *evidence.Dir, id string) bool {
	_, _, err := evidence.ReadChain(dir, receiptsDir, id)
	var f *evidence.Fault
	first := receiptsDir + "/" + evidence.EntryName(1, typeSealed)
	switch {
	case err == nil:
		_, err := dir.ReadSealed(first, evidence.MaxRecord)
		return err == nil
	case errors.As(err, &f):
		return !(f.Entry == receiptsDir || f.Torn && f.Entry == first)
	}
	return true
}

// aside moves what never was a run out of the way: nothing was started of it.
func (s *Store) aside(id string) error {
	dir, err := s.state.Ensure(asideDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := s.dir.Rename(id, dir, id); err != nil {
		return err
	}
	s.leave(id, "")
	s.opt.Log.Warn("a run that was about to begin when an earlier daemon ended is set aside; nothing was started", "run", id, "aside", asideDir+"/"+id)
	return evidence.Together(s.dir.Sync, dir.Sync)
}

// tornLog is the record of the end of a message log that has no receipt.
type tornLog struct {
	Entry  string `json:"entry"`
	Aside  string `json:"aside"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// setAsideLogs moves messages without a receipt out of the log, and a final
// receipt that was not written to its end.
func (r *Run) setAsideLogs(now time.Time) error {
	data, _, err := r.dir.Read(messagesFile, 2*maxMessageLog)
	if err != nil {
		return fmt.Errorf("read the messages: %w", err)
	}
	rest, err := splitMessages(data, r.records)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		if err := r.tear(messagesFile, rest, now); err != nil {
			return err
		}
		if err := r.dir.Truncate(messagesFile, int64(len(data)-len(rest))); err != nil {
			return err
		}
	}
	half, _, err := r.dir.Read(finalFile, maxSealed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !evidence.IsTorn(half) {
		return &evidence.Fault{Entry: finalFile, Message: "not as it was written"}
	}
	if err == nil {
		err = r.tear(finalFile, half, now)
	}
	if err == nil {
		err = r.dir.Discard(finalFile)
	}
	return err
}

// tear keeps what is torn, and names it in a receipt.
func (r *Run) tear(name string, data []byte, now time.Time) error {
	dir, err := r.dir.Ensure(tornDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	as := fmt.Sprintf("%04d-%s", len(r.records)+1, name)
	if err := dir.Write(as, data); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return r.append(typeTorn, now, tornLog{name, tornDir + "/" + as, evidence.Digest(data), len(data)})
}

// sealUnseen seals a run whose end nobody saw.
func (r *Run) sealUnseen(now time.Time) error {
	end := endedBody{Actor: r.store.opt.Self, State: Failed}
	output, info, err := r.dir.Read(outputFile, 2*limit)
	if err != nil {
		return fmt.Errorf("read the output: %w", err)
	}
	reason := "the daemon ended first"
	end.Reason, end.OutputBytes, end.OutputCut = &reason, info.Size, info.Size >= limit
	r.bytes.Store(info.Size)
	if !slices.ContainsFunc(r.records, func(rec evidence.Record) bool { return rec.Type == typeEnded }) {
		if err := r.append(typeEnded, now, end); err != nil {
			return err
		}
	}
	for _, name := range []string{messagesFile, outputFile} {
		if err := r.dir.Seal(name); err != nil {
			return err
		}
	}
	return r.finish(now, map[string]string{outputFile: evidence.Digest(output)})
}
