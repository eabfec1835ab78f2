package broker

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/wire"
)

func rawTool(name string) Item {
	return Item{Name: name, Raw: append(wire.AppendQuoted([]byte(`{"z":1.0,"name":`), name), `,"a":[]}`...)}
}

// view merges and returns what a caller that is nobody's sees.
func view(offers []Offer, prompts []Prompt) (*Catalog, error) {
	f, err := Merge(Content{Offers: offers, Prompts: prompts})
	if err != nil {
		return nil, err
	}
	return f.View(Unattributed()), nil
}

func TestMerge_KeepsEveryByteOfAToolButItsName(t *testing.T) {
	c, err := view([]Offer{{Key: "k", Known: true, Tools: []Item{{Name: "b", Raw: []byte(`{ "inputSchema":{"$ref":"#/definitions/x","x-n":1e400}, "name" : "b" }`)}, rawTool("a")}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"tools":[{"z":1.0,"name":"k__a","a":[]},{ "inputSchema":{"$ref":"#/definitions/x","x-n":1e400}, "name" : "k__b" }]}`
	if diff := cmp.Diff(want, string(c.lists[wire.Tools])); diff != "" {
		t.Error(diff)
	}
}

func TestMerge_LeavesAnOddToolOutAndItsNeighboursAlone(t *testing.T) {
	f, err := Merge(Content{Offers: []Offer{{Key: "k", Known: true, Tools: []Item{{Name: "odd", Raw: []byte(`{"name":"odd","name":"odd"}`)}, rawTool("ok")}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := f.View(Unattributed())
	if got := string(c.lists[wire.Tools]); got != `{"tools":[{"z":1.0,"name":"k__ok","a":[]}]}` || c.Tools() != 1 || len(f.Warnings) != 1 {
		t.Errorf("%s, %d tools, warnings %q", got, c.Tools(), f.Warnings)
	}
	if _, e := c.find("k__odd"); e == nil || e.Code != wire.UnknownTool {
		t.Errorf("the odd tool is callable: %v", e)
	}
}

func TestMerge_GivesTheSameBytesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-z]{1,3}`)
		name := rapid.OneOf(rapid.StringMatching(`[a-c_-]{1,4}`), rapid.StringN(1, 80, -1))
		var offers []Offer
		for _, k := range rapid.SliceOfNDistinct(key, 0, 4, rapid.ID[string]).Draw(t, "keys") {
			o := Offer{Key: k, Known: true, Instructions: rapid.String().Draw(t, "instructions")}
			for _, n := range rapid.SliceOfNDistinct(name, 0, 6, rapid.ID[string]).Draw(t, "names") {
				o.Tools = append(o.Tools, rawTool(n))
			}
			offers = append(offers, o)
		}
		a, err := view(offers, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := view(rapid.Permutation(offers).Draw(t, "shuffled"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.lists[wire.Tools], b.lists[wire.Tools]) || !a.equal(b, wire.Tools) {
			t.Fatal("the order of the offers shows")
		}
		if !json.Valid(a.lists[wire.Tools]) {
			t.Fatalf("not JSON: %s", a.lists[wire.Tools])
		}
	})
}

func TestMerge_PromptListsAreSortedAndDifferByTheirBodies(t *testing.T) {
	one := Prompt{Name: "b", Body: [32]byte{1}}
	two := Prompt{Name: "b", Body: [32]byte{2}}
	other := Prompt{Name: "a b", Description: "<&>"}
	a, err := view(nil, []Prompt{one, other})
	if err != nil {
		t.Fatal(err)
	}
	b, err := view(nil, []Prompt{other, two})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(a.lists[wire.Prompts]), string(b.lists[wire.Prompts])); diff != "" {
		t.Error(diff)
	}
	if a.equal(b, wire.Prompts) || !a.equal(b, wire.Tools) {
		t.Error("a changed body is a changed prompt, and nothing else")
	}
	if got := string(a.lists[wire.Prompts]); !strings.Contains(got, `<&>`) || strings.Index(got, `"a_b_`) > strings.Index(got, `"b"`) {
		t.Errorf("list: %s", got)
	}
}

func TestMerge_AnEmptyCatalogListsWhatTheOfflineEndpointLists(t *testing.T) {
	c, err := view(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k := range wire.Kinds {
		if got, want := string(c.lists[k]), string(k.EmptyList()); got != want {
			t.Errorf("%s: %s, offline %s", k, got, want)
		}
	}
}

func TestJoinInstructions_NeverCostsAShortTextItsShare(t *testing.T) {
	got := joinInstructions([]Offer{
		{Key: "a", Instructions: strings.Repeat("ä", 5000)},
		{Key: "b"},
		{Key: "c", Instructions: " use c "},
	}, wire.MaxInstructions)
	if !strings.HasPrefix(got, "a: ää") || !strings.HasSuffix(got, "…\nc: use c") || utf8.RuneCountInString(got) > wire.MaxInstructions {
		t.Errorf("%d characters: …%s", utf8.RuneCountInString(got), got[len(got)-40:])
	}
	if got := joinInstructions(nil, 10); got != "" {
		t.Errorf("nothing to join gave %q", got)
	}
}

func TestJoinInstructions_StaysWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var offers []Offer
		for range rapid.IntRange(0, 200).Draw(t, "offers") {
			offers = append(offers, Offer{Key: rapid.StringMatching(`[a-z]{1,24}`).Draw(t, "key"), Instructions: rapid.String().Draw(t, "text")})
		}
		if n := utf8.RuneCountInString(joinInstructions(offers, wire.MaxInstructions)); n > wire.MaxInstructions {
			t.Fatalf("%d characters", n)
		}
	})
}
