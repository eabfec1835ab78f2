package broker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/broker"
	"harness/pkg/wire"
)

// drawer is a few resources of the endpoint itself, some of which misbehave.
type drawer struct{ ended chan error }

func (drawer) List() []broker.OwnResource {
	return []broker.OwnResource{
		{URI: "harness://x", Name: "x", Does: "X", MIME: "text/plain"},
		{URI: "harness://x/{id}", Name: "one", Does: "one x", MIME: "text/plain", Template: true},
	}
}

func (d drawer) Read(ctx context.Context, scope *broker.Scope, uri string) (text, mime string, err error) {
	switch strings.TrimPrefix(uri, broker.OwnScheme) {
	case "x":
		return "for " + scope.Harness, "text/plain", nil
	case "x/refused":
		return "", "", wire.New(wire.InvalidEvidence, "changed")
	case "x/unknown":
		return "", "", wire.New(wire.UnknownRun, "no such run")
	case "x/misspelt":
		return "", "", wire.New(wire.InvalidArgument, "limit")
	case "x/broken":
		return "", "", errors.New("the secret is xyzzy")
	case "x/panics":
		panic("the secret is xyzzy")
	case "x/slow":
		<-ctx.Done()
		d.ended <- ctx.Err()
		return "", "", ctx.Err()
	}
	return "", "", broker.ErrNoResource
}

func (drawer) Operation(uri string) (string, bool) { return "harness://x", uri != "harness://gone" }

func TestOwnResources_AreListedAndReadBesideThoseOfUpstreams(t *testing.T) {
	up := newFakeUpstream()
	f := scoped(t, broker.Content{
		Offers:       []broker.Offer{{Key: "a", Upstream: up, Known: true, HasResources: true, Resources: []broker.Item{resource("harness://x"), resource("a:1")}}},
		OwnResources: drawer{},
	})
	s := f.greetedAs(broker.NewScope("me", "", []string{"*"}, false))
	for i, c := range [][2]string{
		{
			"resources/list {}",
			`"result":{"resources":[{"x-n":1.0,"uri":"a:1","name":"n"},{"description":"X","mimeType":"text/plain","name":"x","uri":"harness://x"},{"x-n":1.0,"uri":"harness://x#harness.upstream=a","name":"n"}]}`,
		},
		{"resources/templates/list {}", `"result":{"resourceTemplates":[{"description":"one x","mimeType":"text/plain","name":"one","uriTemplate":"harness://x/{id}"}]}`},
		{`resources/read {"uri":"harness://x"}`, `"result":{"contents":[{"mimeType":"text/plain","text":"for me","uri":"harness://x"}]}`},
		{`resources/read {"uri":"harness://none"}`, `"error":{"code":-32002,`},
		{`resources/read {"uri":"harness://x/unknown"}`, `"error":{"code":-32002,"message":"no such run","data":{"code":"unknown_run"`},
		{`resources/read {"uri":"harness://x/misspelt"}`, `"error":{"code":-32602,`},
		{`resources/read {"uri":"harness://x/refused"}`, `"error":{"code":-32603,"message":"changed","data":{"code":"invalid_evidence"`},
		{`completion/complete {"ref":{"type":"ref/resource","uri":"harness://x/{id}"},"argument":{"name":"id","value":"r"}}`, `"result":{"completion":{"values":[]`},
	} {
		method, params, _ := strings.Cut(c[0], " ")
		if got := s.ask(i, method, params); !strings.Contains(got, c[1]) {
			t.Errorf("%s: %s\nwant %s", c[0], got, c[1])
		}
	}
	for i, uri := range []string{"harness://x/broken", "harness://x/panics"} {
		got := s.ask(i, "resources/read", `{"uri":"`+uri+`"}`)
		if strings.Contains(got, "xyzzy") || !strings.Contains(got, `"code":-32603`) || !strings.Contains(got, `"correlation_id":"`) {
			t.Errorf("%s: %s", uri, got)
		}
	}
	s.send(`{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"harness://x#harness.upstream=a"}}`)
	if r := <-up.calls; !strings.Contains(r.line, `"uri":"harness://x"`) {
		t.Errorf("relayed as %s", r.line)
	}
}

func TestOwnResources_AReadCanBeTakenBack(t *testing.T) {
	d := drawer{make(chan error, 1)}
	f := scoped(t, broker.Content{OwnResources: d})
	s := f.greeted()
	s.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"harness://x/slow"}}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	s.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if err := <-d.ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	s.want(`{"jsonrpc":"2.0","id":3,"result":{}}`)
}

func TestOwnResources_TellWhoSubscribed(t *testing.T) {
	f := scoped(t, broker.Content{OwnResources: drawer{}})
	s, other := f.greeted(), f.greeted()
	if got := s.ask(1, "resources/subscribe", `{"uri":"harness://x?limit=1"}`); !strings.Contains(got, `"result":{}`) {
		t.Error(got)
	}
	if got := s.ask(9, "resources/subscribe", `{"uri":"harness://gone"}`); !strings.Contains(got, `"error":{"code":-32002,`) {
		t.Error(got)
	}
	f.b.Updated("harness://y")
	f.b.Updated("harness://x")
	s.want(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"harness://x?limit=1"}}`)
	if got := s.ask(2, "resources/unsubscribe", `{"uri":"harness://x?limit=1"}`); !strings.Contains(got, `"result":{}`) {
		t.Error(got)
	}
	f.b.Updated("harness://x")
	for i, a := range []*agent{s, other} {
		if diff := cmp.Diff(`{"jsonrpc":"2.0","id":3,"result":{}}`, a.ask(3, "ping", `{}`)); diff != "" {
			t.Errorf("session %d (-want +got):\n%s", i, diff)
		}
	}
}
