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

// follow is how often the -tools file is read again.
const follow = 10 * time.Millisecond

// builtins are the tools offered without a -tools file, in this order.
func builtins() []string {
	return []string{
		"echo", "raw", "pid", "env", "blob", "bigline", "sleep", "hang", "progress", "tag", "die", "last",
		"fail", "rpcerror", "noise", "burst", "flood", "log", "ask", "deaf",
	}
}

// offer is the list of tools, raw.
type offer struct {
	mu    sync.Mutex
	tools []json.RawMessage
	text  string // of the file, as last read
}

func newOffer(o options) *offer {
	f := &offer{}
	for _, name := range builtins() {
		f.tools = append(f.tools, plain(name))
	}
	for i := range o.count {
		f.tools = append(f.tools, plain(fmt.Sprintf("t%04d", i)))
	}
	if o.toolsFile != "" {
		f.reload(o.toolsFile)
	}
	return f
}

// plain is a tool with no more than it must have.
func plain(name string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"does %s","inputSchema":{"type":"object"}}`, name, name))
}

// reload reads the file and reports whether it has another list now. A file
// that is being written is read again later.
func (f *offer) reload(path string) bool {
	text, err := os.ReadFile(path)
	var tools []json.RawMessage
	if err != nil || json.Unmarshal(text, &tools) != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(text) == f.text {
		return false
	}
	f.tools, f.text = tools, string(text)
	return true
}

// watch calls changed after every change of the file, until ctx ends.
func (f *offer) watch(ctx context.Context, path string, changed func()) {
	tick := time.NewTicker(follow)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if f.reload(path) {
				changed()
			}
		}
	}
}

// page is the result of tools/list for a cursor; nil is the first page. The
// cursor of the second page is the empty string, which is not the end.
func (f *offer) page(cursor *string, size int) (string, bool) {
	f.mu.Lock()
	tools := slices.Clone(f.tools)
	f.mu.Unlock()
	if size == 0 {
		size = max(1, len(tools))
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
	from, to := min(n*size, len(tools)), min((n+1)*size, len(tools))
	next := ""
	if to < len(tools) {
		next = `,"nextCursor":""`
		if n > 0 {
			next = fmt.Sprintf(`,"nextCursor":"page %d"`, n+1)
		}
	}
	var b strings.Builder
	for i, tool := range tools[from:to] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(tool)
	}
	return `{"tools":[` + b.String() + `]` + next + `}`, true
}
