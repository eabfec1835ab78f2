package broker

import (
	"cmp"
	"fmt"
	"slices"
)

// LeftOut is one tool that sessions of one kind of agent are not shown, because
// it would cost them every other tool too.
type LeftOut struct {
	Class  string // of the agents
	Key    string // of the upstream
	Tool   string // as the others see it
	Reason string
}

// tellLeftOut tells of each once.
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
	b.mu.Unlock()
	for _, l := range news {
		b.opt.Event(Event{Kind: "tool", Session: l.Tool, Message: fmt.Sprintf("left out for %s: %s", l.Class, l.Reason)})
	}
}

// LeftOut lists what sessions were not shown, as long as it is offered.
func (b *Broker) LeftOut() []LeftOut {
	offered := map[string]bool{}
	for _, r := range b.fleet.Load().realms {
		for _, t := range r.tools {
			offered[t.name] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []LeftOut
	for l := range b.told {
		if offered[l.Tool] {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}
