package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func roles() []string { return []string{"orchestrator", "implementation", "review"} }

// files is a directory of a test.
func files(m map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, there := m[name]
		if !there {
			return nil, errors.New("there is nothing at that path")
		}
		return []byte(text), nil
	}
}

const aPack = "name = \"p\"\nversion = 1\n[[ticket]]\nid = \"a\"\nfile = \"a.md\"\nrole = \"review\"\n"

func TestParsePack_SaysEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	read := files(map[string]string{"a.md": "do", "big.md": strings.Repeat("x", MaxTicket+1), "empty.md": "", "bin.md": "\xff"})
	ticket := func(more string) string { return aPack + "[[ticket]]\n" + more }
	for text, want := range map[string]string{
		aPack: "",
		"version = \"1\"\n[[ticket]]\nfile=\"a.md\"\nrole=\"review\"\n":                        "name: a pack has a name",
		"name = \"p\"\nversion=\"1\"\n":                                                        "ticket: a pack has 1 to 200",
		"name = \"p\"\nversion = \n":                                                           ":2: ",
		"nmae = \"p\"\n":                                                                       ":1: nmae: there is no such key",
		ticket("id='b'\nfile='none.md'\nrole='review'"):                                        "ticket.b.file: there is nothing",
		ticket("id='b'\nfile='../a.md'\nrole='review'"):                                        "ticket.b.file: a path below",
		ticket("id='b'\nfile='/a.md'\nrole='review'"):                                          "ticket.b.file: a path below",
		ticket("id='b'\nfile='big.md'\nrole='review'"):                                         "ticket.b.file: larger",
		ticket("id='b'\nfile='empty.md'\nrole='review'"):                                       "ticket.b.file: it is empty",
		ticket("id='b'\nfile='bin.md'\nrole='review'"):                                         "ticket.b.file: it is not UTF-8",
		ticket("id='b'\nfile='a.md'\nrole='king'"):                                             "ticket.b.role: \"king\"",
		ticket("id='a'\nfile='a.md'\nrole='review'"):                                           "ticket.a: there are two",
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['c']"):                              "ticket.b.needs: there is no ticket \"c\"",
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['b']"):                              "ticket.b.needs: it needs itself",
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['a','a']"):                          "ticket.b.needs: \"a\" is named twice",
		ticket("id='b'\nfile='a.md'\nrole='review'\nsha256='" + strings.Repeat("0", 64) + "'"): "ticket.b.sha256: the file has another",
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['c']\n[[ticket]]\nid='c'\nfile='a.md'\nrole='review'\nneeds=['b']"): "ticket.b.needs: a cycle: b -> c -> b",
	} {
		p, faults := ParsePack([]byte(text), roles(), read)
		var said []string
		for _, f := range faults {
			line := ""
			if f.Line > 0 {
				line = fmt.Sprintf(":%d: ", f.Line)
			}
			said = append(said, line+f.Key+": "+f.Message)
		}
		if want == "" && (len(said) > 0 || p.Tickets[0].Bytes != 2 || p.Version != "1" || len(p.SHA256) != 64) {
			t.Errorf("%s: %v, %+v", text, said, p)
		}
		if want != "" && !slices.ContainsFunc(said, func(one string) bool { return strings.HasPrefix(one, want) }) {
			t.Errorf("%s: %v, want %s", text, said, want)
		}
	}
}

func TestParse_SaysEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	head := "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\n"
	for text, want := range map[string]string{
		head:                        "",
		head + "prompt_file='a.md'": "",
		"[workflow]\nname = \"w\"\nparallel = 3\n[[nodes]]\nid = \"a\"\nharness = \"h\"\n": "",
		"name = \"w\"\n":                   "node: a workflow has 1 to 500",
		"name = \"w\"\nparallel = 0\n":     "parallel: 1 to 64",
		head + "timeout = \"soon\"":        "node.a.timeout",
		head + "retry = 11":                "node.a.retry",
		head + "role = \"king\"":           "node.a.role",
		head + "prompt_file = \"../x\"":    "node.a.prompt_file: a path below",
		head + "prompt_file = \"none\"":    "node.a.prompt_file: there is nothing",
		head + "kind = \"approval\"":       "node.a: an approval has needs",
		head + "kind = \"other\"":          "node.a.kind",
		head + "[[node]]\nid = \"b\"":      "node.b.harness: which",
		head + "needs = [\"b\"]":           "node.a.needs: there is no node",
		head + "[[node]]\nid = \"../b\"\n": "node.../b: an id is of",
		head + "argv = [\"rm\"]":           ": there is no such key",
	} {
		_, _, faults := Parse([]byte(text), roles(), files(map[string]string{"a.md": "do"}))
		said := make([]string, len(faults))
		for i, f := range faults {
			said[i] = f.Key + ": " + f.Message
		}
		if (want == "") != (len(said) == 0) || want != "" && !slices.ContainsFunc(said, func(one string) bool { return strings.Contains(one, want) }) {
			t.Errorf("%s: %v, want %q", text, said, want)
		}
	}
}

// A cycle is shown as it goes round, without what only leads to it.
func TestCycle_IsTheLoopItself(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"deploy:a a:b b:a":         "a b a",
		"a:b b:c c:d d:b e:e":      "b c d b",
		"a:b,c b:d c:d d:":         "",
		"a:a b:none":               "",
		"a:b b: c:b,e d:c e:f f:c": "c e f c",
	} {
		var ids []string
		needs := map[string][]string{}
		for _, one := range strings.Fields(text) {
			id, list, _ := strings.Cut(one, ":")
			ids, needs[id] = append(ids, id), strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
		}
		if got := strings.Join(cycle(ids, needs), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// drawGraph makes any valid graph.
func drawGraph(t *rapid.T) *Graph {
	g := &Graph{Name: "w", Parallel: rapid.IntRange(1, 4).Draw(t, "parallel")}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		n := Node{ID: fmt.Sprint("n", i), Harness: "h", Needs: []string{}, Retry: rapid.IntRange(0, 2).Draw(t, "retry")}
		if rapid.IntRange(0, 4).Draw(t, "approval") == 0 {
			n.Approval, n.Harness, n.Retry = true, "", 0
		}
		for j := range i {
			if rapid.Bool().Draw(t, "need") {
				n.Needs = append(n.Needs, fmt.Sprint("n", j))
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g
}

// shown is a state in words.
func shown(s *State) string {
	state, nodes := s.View()
	raw, err := json.Marshal(nodes)
	return fmt.Sprint(state, string(raw), err)
}

// Whatever comes of its runs, a workflow never has more of them than it may,
// never runs a node before what it needs or after it was done, and ends. What is
// replayed of its journal, at any point, is what it was.
func TestNext_OfAnyGraphIsInOrderBoundedAndEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		s, err := Replay(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		var journal []Entry
		write := func(typ string, body any) {
			raw, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			e := Entry{typ, raw}
			journal = append(journal, e)
			if err := s.apply(e); err != nil {
				t.Fatal(err)
			}
		}
		done, resumes, runs := map[string]bool{}, 0, 0
		for steps := 0; ; steps++ {
			if steps > 1000 {
				t.Fatal("it does not end")
			}
			if again, err := Replay(g, journal); err != nil || shown(again) != shown(s) {
				t.Fatal("replayed it is another", err)
			}
			next := s.Next()
			for _, step := range next {
				if step.End != "" {
					write(TypeEnded, map[string]string{"state": step.End})
					continue
				}
				a := *step.Attempt
				def, _ := g.Find(a.Node)
				if done[a.Node] {
					t.Fatalf("%s was done and is run again", a.Node)
				}
				for _, need := range def.Needs {
					if !done[need] {
						t.Fatalf("%s is run before %s", a.Node, need)
					}
				}
				runs++
				a.Run = fmt.Sprint("r", runs)
				write(TypeNodeStarted, a)
			}
			under := s.UnderWay()
			if len(under) > g.Parallel {
				t.Fatalf("%d at once, of %d", len(under), g.Parallel)
			}
			switch state, _ := s.View(); {
			case state == Done:
				return
			case (state == Failed || state == Interrupted) && resumes < 3:
				resumes++
				write(TypeResumed, struct{}{})
			case state == Failed || state == Interrupted:
				return
			case len(under) > 0:
				a := under[rapid.IntRange(0, len(under)-1).Draw(t, "which")]
				code := rapid.IntRange(0, 1).Draw(t, "code")
				r := Result{Node: a.Node, N: a.N, Run: a.Run, State: rapid.SampledFrom([]string{"exited", "exited", "timed_out", "cancelled", Interrupted}).Draw(t, "state"), ExitCode: &code, FinalReceiptSHA256: "f"}
				write(TypeNodeEnded, r)
				done[a.Node] = r.ok()
			case state == Waiting:
				node := s.Awaited()[0]
				write(TypeApproved, Approval{Nodes: []string{node}})
				done[node] = true
			default:
				t.Fatalf("it hangs as %s", state)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\nneeds = [\"b\"]\n[[node]]\nid = \"b\"\nkind = \"approval\"\n"))
	f.Add([]byte("[workflow]\nname = 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, _, faults := Parse(text, roles(), files(map[string]string{"a.md": "do"}))
		if len(faults) > 0 {
			return
		}
		s, err := Replay(&g, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Next()) == 0 && len(s.Awaited()) == 0 {
			t.Fatal("a valid workflow has nothing to begin with")
		}
	})
}

func FuzzParsePack(f *testing.F) {
	f.Add([]byte(aPack))
	f.Add([]byte("name = [1]\n"))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		p, faults := ParsePack(manifest, roles(), files(map[string]string{"a.md": "do"}))
		if len(faults) > 0 {
			return
		}
		for _, ticket := range p.Tickets {
			if !below(ticket.File) || ticket.Bytes == 0 {
				t.Fatalf("%+v", ticket)
			}
		}
	})
}
