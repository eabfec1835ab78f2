package daemon

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness/pkg/control"
	"harness/pkg/evidence"
	"harness/pkg/facade"
	"harness/pkg/run"
	"harness/pkg/workflow"
	"harness/pkg/worktree"
)

// sources shows in resources what the operations show (RES-1).
type sources struct{ *ops }

var _ facade.Sources = sources{}

// Knowledge implements [facade.Sources].
func (s sources) Knowledge() *run.Knowledge { return s.knowledge }

// Identify implements [facade.Sources].
func (s sources) Identify() facade.Identity {
	return facade.Identity{Version: s.version, Instance: *s.self.Name, API: control.APIVersion()}
}

// State implements [facade.Sources].
func (s sources) State() []facade.StateItem {
	items := []facade.StateItem{}
	for _, h := range s.List("") {
		items = append(items, facade.StateItem{Kind: "harness", Name: h.Name, State: h.State, Enabled: h.Enabled, Restarts: h.Restarts, Project: h.Project, ConfigPending: h.ConfigPending, Error: h.Error})
	}
	for _, u := range s.upstreams(s.loop.State().Desired) {
		item := facade.StateItem{Kind: "upstream", Name: u.Name, State: u.State, Enabled: u.Enabled, Restarts: u.Restarts, ConfigPending: u.Pending != nil, Error: u.Error}
		if project, _, of := strings.Cut(u.Name, "/"); of {
			item.Project = &project
		}
		items = append(items, item)
	}
	return items
}

// Run implements [facade.Sources].
func (s sources) Run(id string) (run.Info, error) {
	info, err := s.runs.Info(id)
	return info, problem(err)
}

// Messages implements [facade.Sources].
func (s sources) Messages(id string) ([]run.Message, error) {
	list, err := s.runs.Messages(id)
	return list, problem(err)
}

// Receipts implements [facade.Sources].
func (s sources) Receipts(id string) ([]run.Receipt, error) {
	list, err := s.runs.Receipts(id)
	return list, problem(err)
}

// Context implements [facade.Sources].
func (s sources) Context(id string) (run.Context, error) {
	c, err := s.runs.Context(id)
	return c, problem(err)
}

// Card implements [facade.Sources].
func (s sources) Card(id string) (string, error) {
	text, err := s.runs.Card(id)
	return text, problem(err)
}

// found is a directory that may hold work.
type found struct {
	name, path, kind string
}

// maxLooked bounds how many directories are looked at below the places.
const maxLooked = 2000

// look lists the places, and the directories directly below them that have the
// named file or directory in them, by path.
func (o *ops) look(has string) []found {
	roots := o.limits.roots()
	var list []found
	looked := 0
	for _, p := range o.places() {
		kind := "project"
		if slices.Contains(roots, p.path) {
			kind = "root"
		}
		list = append(list, found{p.name, p.path, kind})
		dir, err := evidence.OpenDir(p.path)
		if err != nil {
			continue // it is listed, and said to be nothing
		}
		names, _ := dir.Names()
		for _, name := range names {
			if looked++; looked > maxLooked {
				break
			}
			sub, err := dir.Sub(name)
			if err != nil {
				continue
			}
			inside, _ := sub.Names()
			sub.Close()
			if _, there := slices.BinarySearch(inside, has); there {
				list = append(list, found{name, filepath.Join(p.path, name), ""})
			}
		}
		dir.Close()
	}
	slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(a.path, b.path) })
	return slices.CompactFunc(list, func(a, b found) bool { return a.path == b.path })
}

// pageOf cuts a page out of what is sorted by path.
func pageOf[T any](all []T, key func(T) string, after string, n int) (page []T, next string) {
	begin := 0
	for begin < len(all) && after != "" && key(all[begin]) <= after {
		begin++
	}
	rest := all[begin:]
	if len(rest) <= n {
		return rest, ""
	}
	return rest[:n], key(rest[n-1])
}

// Repositories implements [facade.Sources].
func (s sources) Repositories(ctx context.Context, after string, n int) (items []facade.Repository, next string, err error) {
	page, next := pageOf(s.look(".git"), func(f found) string { return f.path }, after, n)
	ctx, cancel := context.WithTimeout(ctx, gitWithin)
	defer cancel()
	for _, f := range page {
		r := facade.Repository{Name: f.name, Path: f.path, Kind: cmp.Or(f.kind, "repository")}
		if top, err := worktree.Git(ctx, f.path, "rev-parse", "--show-toplevel"); err == nil && top == f.path {
			if head, err := worktree.Git(ctx, f.path, "rev-parse", "HEAD"); err == nil {
				r.HEAD = &head
			}
			if dirty, err := worktree.Git(ctx, f.path, "status", "--porcelain"); err == nil {
				clean := dirty == ""
				r.Clean = &clean
			}
		}
		items = append(items, r)
	}
	return items, next, nil
}

// gitWithin bounds what git is asked of all repositories of a page. What is not
// known by then is null.
const gitWithin = 10 * time.Second

// Packs implements [facade.Sources].
func (s sources) Packs(_ context.Context, after string, n int) (items []facade.Pack, next string, err error) {
	packs := slices.DeleteFunc(s.look(workflow.PackFile), func(f found) bool { return !hasPack(f.path) })
	page, next := pageOf(packs, func(f found) string { return f.path }, after, n)
	for _, f := range page {
		items = append(items, packAt(f.path))
	}
	return items, next, nil
}

// hasPack reports whether a directory is a pack, valid or not.
func hasPack(path string) bool {
	dir, err := evidence.OpenDir(path)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Names()
	_, there := slices.BinarySearch(names, workflow.PackFile)
	return err == nil && there
}

// packAt reads the pack in a directory.
func packAt(path string) facade.Pack {
	out := facade.Pack{Path: path}
	dir, err := evidence.OpenDir(path)
	if err != nil {
		return out
	}
	defer dir.Close()
	manifest, _, err := dir.Read(workflow.PackFile, workflow.MaxManifest)
	if err != nil {
		reason := pathReason(err)
		out.Error = &reason
		return out
	}
	p, faults := workflow.ParsePack(workflow.PackFile, manifest, workflow.Outside{Roles: run.Roles(), Read: beside(dir)})
	out.Name, out.Version, out.Tickets, out.SHA256, out.OK = p.Name, p.Version, len(p.Tickets), p.SHA256, len(faults) == 0
	if len(faults) > 0 {
		reason := faults[0].String()
		out.Error = &reason
	}
	return out
}

// Worktrees implements [facade.Sources].
func (s sources) Worktrees(after string, n int) (items []facade.Worktree, next string, err error) {
	all, err := s.worktrees.List()
	if err != nil {
		return nil, "", problem(err)
	}
	page, next := pageOf(all, func(w worktree.Listed) string { return w.Name }, after, n)
	for _, w := range page {
		items = append(items, facade.Worktree{Name: w.Name, Repo: w.Repo, Path: w.Path, Branch: w.Branch, Base: w.Base, Head: control.OrNull(w.Head)})
	}
	return items, next, nil
}
