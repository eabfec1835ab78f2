package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// LeftOut is one tool that sessions of one kind of agent are not shown, because
// it would cost them every other tool too.
type LeftOut struct {
	Class        string // of the agents
	Project, Key string // of the upstream
	Tool         string // as the others see it
	Reason       string
}

// tellLeftOut tells of each once, and forgets those that are not offered any
// more.
func (b *Broker) tellLeftOut(class string, list []LeftOut) {
	b.mu.Lock()
	var news []LeftOut
	for _, l := range list {
		l.Class = class
		if !b.told[l] {
			b.told[l] = true
			news = append(news, l)
		}
	}
	if len(news) > 0 {
		offered := b.offered()
		maps.DeleteFunc(b.told, func(l LeftOut, _ bool) bool { return offered[l.Tool] == nil })
	}
	b.mu.Unlock()
	for _, l := range news {
		b.opt.Event(Event{Kind: "tool", Session: l.Tool, Message: fmt.Sprintf("left out for %s: %s", l.Class, l.Reason)})
	}
}

// offered are the definitions of all tools by name, of which each project may
// have its own.
func (b *Broker) offered() map[string][][]byte {
	all := map[string][][]byte{}
	for _, r := range b.fleet.Load().realms {
		for _, t := range r.tools {
			all[t.name] = append(all[t.name], t.raw)
		}
	}
	return all
}

// LeftOut lists what sessions were not shown, as long as it is offered so.
func (b *Broker) LeftOut() []LeftOut {
	b.mu.Lock()
	list := slices.Collect(maps.Keys(b.told))
	b.mu.Unlock()
	offered := b.offered()
	list = slices.DeleteFunc(list, func(l LeftOut) bool {
		return !slices.ContainsFunc(offered[l.Tool], func(raw []byte) bool { return b.opt.Lint(l.Class, raw) == l.Reason })
	})
	slices.SortFunc(list, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}
