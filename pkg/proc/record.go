package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"harness/pkg/durable"
)

// recordName is the file of the record within the state directory.
const recordName = "groups.json"

// recordVersion is the version of the record's form. Another one is foreign.
const recordVersion = 1

// record is what a successor has to know of the groups of a killed daemon.
type record struct {
	Version int        `json:"version"`
	Boot    string     `json:"boot"`      // identities mean nothing after a reboot
	Space   string     `json:"pid_space"` // or in another pid namespace
	Groups  []leftover `json:"groups"`
}

// leftover is one group as recorded. Its number is also that of its process
// group and of its session; an orphan of unknown origin is recorded as a group
// without pipes and members.
type leftover struct {
	Name    string   `json:"name"`
	ident            // the leader
	Owner   ident    `json:"owner"` // the process whose Host started it
	Pipes   []uint64 `json:"pipes,omitempty"`
	Members []ident  `json:"members,omitempty"` // descendants seen so far
}

// decodeRecord reads a record. It is an error when data is torn or foreign.
func decodeRecord(data []byte) (record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, err
	}
	if r.Version != recordVersion {
		return record{}, fmt.Errorf("version %d is not %d", r.Version, recordVersion)
	}
	return r, nil
}

// keeper keeps the record file.
type keeper struct {
	path        string
	boot, space string
	writes      shared
	failing     bool // the last write failed; touched within writes only
	unsynced    atomic.Bool
}

func newKeeper(dir string) *keeper {
	return &keeper{path: filepath.Join(dir, recordName), boot: readBoot(), space: readSpace()}
}

// load returns what a predecessor recorded, as far as it can mean anything
// now. A torn or foreign file is set aside.
func (k *keeper) load(log *slog.Logger) record {
	data, err := durable.Read(k.path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}
	}
	var r record
	if err == nil {
		r, err = decodeRecord(data)
	}
	if err != nil {
		aside, asideErr := durable.SetAside(k.path)
		if asideErr != nil {
			log.Error("record of process groups not set aside", "path", k.path, "error", asideErr)
		}
		log.Warn("record of process groups not usable, set aside", "path", k.path, "aside", aside, "error", err)
		return record{}
	}
	if !k.means(r) {
		return record{}
	}
	return r
}

// means reports whether the identities in a record are those of processes here.
func (k *keeper) means(r record) bool {
	return r.Boot == k.boot && r.Space == k.space && k.boot != ""
}

// save replaces the record. One without groups needs no file.
//
// It does not wait for the disk, sync does that later: kill -9 loses nothing
// that was written, and what a power failure may lose is worthless after it,
// so no start has to wait.
func (k *keeper) save(groups []leftover) error {
	if len(groups) == 0 {
		err := os.Remove(k.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	data, err := json.Marshal(record{Version: recordVersion, Boot: k.boot, Space: k.space, Groups: groups})
	if err != nil {
		return err
	}
	aside := k.path + ".new"
	if err := os.WriteFile(aside, append(data, '\n'), 0o600); err != nil {
		return err
	}
	k.unsynced.Store(true)
	return os.Rename(aside, k.path)
}

// sync waits until the disk has what save wrote. Its error is that of the
// disk, and the next save will meet it.
func (k *keeper) sync() {
	if !k.unsynced.Swap(false) {
		return
	}
	f, err := os.Open(k.path)
	if err != nil {
		return // removed since
	}
	defer f.Close()
	_ = f.Sync()
}

// commit brings the record on disk up to date. That it cannot be written
// stops nothing: it is needed only after a crash.
func (h *Host) commit() {
	k := h.record
	k.writes.do(func() {
		groups := h.account()
		err := k.save(groups)
		switch {
		case err != nil && !k.failing:
			h.log.Warn("cannot record process groups", "path", k.path, "error", err)
		case err == nil:
			h.mu.Lock()
			h.written, h.stale = identities(groups), false
			h.mu.Unlock()
		}
		k.failing = err != nil
	})
}

// account lists what has to be in the record.
func (h *Host) account() []leftover {
	h.mu.Lock()
	defer h.mu.Unlock()
	groups := slices.Clone(h.former.Groups)
	for _, g := range h.groups() {
		groups = append(groups, leftover{
			Name:    g.name,
			ident:   g.leader,
			Owner:   h.self.ident,
			Pipes:   onlyPipes(g.pipes[:]), // the number of a terminal is soon another's
			Members: slices.SortedFunc(maps.Keys(g.members), byPID),
		})
	}
	for _, pid := range slices.Sorted(maps.Keys(h.unborn)) {
		groups = append(groups, h.unborn[pid])
	}
	for _, id := range slices.SortedFunc(maps.Keys(h.strays), byPID) {
		groups = append(groups, leftover{Name: "orphan", ident: id, Owner: h.self.ident})
	}
	return groups
}

func byPID(a, b ident) int { return a.PID - b.PID }

// identities is the set of all processes in groups.
func identities(groups []leftover) map[ident]bool {
	set := make(map[ident]bool)
	for _, g := range groups {
		set[g.ident] = true
		for _, id := range g.Members {
			set[id] = true
		}
	}
	return set
}

// Record is what somebody else's record says, as far as it can mean anything now.
type Record struct{ groups []leftover }

// ReadRecord reads the record in dir, which is empty where there is none.
func ReadRecord(dir string) Record {
	data, err := durable.Read(filepath.Join(dir, recordName), 0)
	if err != nil {
		return Record{} // as nearly always: what follows reads more
	}
	r, err := decodeRecord(data)
	if err != nil || !newKeeper(dir).means(r) {
		return Record{}
	}
	return Record{r.Groups}
}

// IsEmpty reports whether nobody is recorded.
func (r Record) IsEmpty() bool { return len(r.groups) == 0 }

// Holds reports whether a process, which started so many clock ticks after the
// boot, is one of those recorded.
func (r Record) Holds(pid int, start uint64) bool {
	id := ident{pid, start}
	return slices.ContainsFunc(r.groups, func(l leftover) bool { return l.ident == id || slices.Contains(l.Members, id) })
}

// Owns reports whether it is the process that started them.
func (r Record) Owns(pid int, start uint64) bool {
	return slices.ContainsFunc(r.groups, func(l leftover) bool { return l.Owner == ident{pid, start} })
}
