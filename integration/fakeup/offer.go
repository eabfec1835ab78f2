package fakeup

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// follow is how often the files of lists are read again.
const follow = 10 * time.Millisecond

// builtins are the tools offered without a -tools file, in this order.
func builtins() []string {
	return []string{
		"echo", "raw", "pid", "env", "blob", "bigline", "sleep", "hang", "progress", "tag", "die", "last",
		"fail", "rpcerror", "noise", "burst", "flood", "log", "ask", "deaf", "update", "message",
	}
}

// offer is one of the lists, raw.
type offer struct {
	method  string // that lists it
	member  string // of the result
	changed string // the notification that it has changed
	file    string // "" for none

	mu    sync.Mutex
	items []json.RawMessage
	text  string // of the file, as last read
}

// newOffers are the lists of one process.
func newOffers(o options) []*offer {
	tools := &offer{method: "tools/list", member: "tools", changed: "notifications/tools/list_changed", file: o.toolsFile}
	for _, name := range builtins() {
		tools.items = append(tools.items, plain(name))
	}
	for i := range o.count {
		tools.items = append(tools.items, plain(fmt.Sprintf("t%04d", i)))
	}
	const resourcesChanged = "notifications/resources/list_changed"
	all := []*offer{
		tools,
		{method: "prompts/list", member: "prompts", changed: "notifications/prompts/list_changed", file: o.promptsFile},
		{method: "resources/list", member: "resources", changed: resourcesChanged, file: o.resourcesFile},
		{method: "resources/templates/list", member: "resourceTemplates", changed: resourcesChanged, file: o.templatesFile},
	}
	for _, f := range all {
		f.reload()
	}
	return all
}

// plain is a tool with no more than it must have.
func plain(name string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"does %s","inputSchema":{"type":"object"}}`, name, name))
}

// reload reads the file and reports whether it has another list now. A file
// that is being written is read again later.
func (f *offer) reload() bool {
	if f.file == "" {
		return false
	}
	text, err := os.ReadFile(f.file)
	var items []json.RawMessage
	if err != nil || json.Unmarshal(text, &items) != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(text) == f.text {
		return false
	}
	f.items, f.text = items, string(text)
	return true
}

// watch calls changed after every change of the file, until ctx ends.
func (f *offer) watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(follow)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if f.reload() {
				changed()
			}
		}
	}
}

// page is the result of the list for a cursor; nil is the first page. The
// cursor of the second page is the empty string, which is not the end.
func (f *offer) page(cursor *string, size int) (string, bool) {
	f.mu.Lock()
	items := slices.Clone(f.items)
	f.mu.Unlock()
	if size == 0 {
		size = max(1, len(items))
	}
	n := 0
	if cursor != nil {
		n = 1
		if *cursor != "" {
			var err error
			if n, err = strconv.Atoi(strings.TrimPrefix(*cursor, "page ")); err != nil {
				return "", false
			}
		}
	}
	from, to := min(n*size, len(items)), min((n+1)*size, len(items))
	next := ""
	if to < len(items) {
		next = `,"nextCursor":""`
		if n > 0 {
			next = fmt.Sprintf(`,"nextCursor":"page %d"`, n+1)
		}
	}
	var b strings.Builder
	for i, item := range items[from:to] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(item)
	}
	return `{"` + f.member + `":[` + b.String() + `]` + next + `}`, true
}
