package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"harness/pkg/config"
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

// outside is that of a test whose files are given.
func outside(m map[string]string) Outside { return Outside{Roles: roles(), Read: files(m)} }

// said are faults as they are read, without the name of the file.
func said(faults config.Faults) []string {
	list := make([]string, len(faults))
	for i, f := range faults {
		list[i] = strings.TrimPrefix(f.String(), f.File+":")
	}
	return list
}

// saysAll holds what was said against the beginnings of what had to be.
func saysAll(t *testing.T, text string, got []string, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s:\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const aPack = "name = \"p\"\nversion = 1\n[[ticket]]\nid = \"a\"\nfile = \"a.md\"\nrole = \"review\"\n"

func TestParsePack_SaysEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	there := outside(map[string]string{"a.md": "do", "big.md": strings.Repeat("x", MaxTicket+1), "empty.md": "", "bin.md": "\xff", "not an id.md": "x"})
	ticket := func(more string) string { return aPack + "[[ticket]]\n" + more } // from line 8 on
	for text, want := range map[string][]string{
		aPack: nil,
		ticket("file='a.md'\nrole='review'\n[[tickets]]\nid='c'\nfile='a.md'\nrole='review'\nneeds=['a']"):                     {"7: ticket.a: there are two tickets"},
		"version = \"1\"\n[[ticket]]\nfile=\"a.md\"\nrole=\"review\"\n":                                                        {"1: name is missing"},
		"name = \"p p\"\nversion=\"1\"\n":                                                                                      {"1: name: \"p p\" is no name", "1: [[ticket]] is missing"},
		"name = \"p\"\nversion=[]\nticket=[]\n":                                                                                {"2: version: expected", "3: ticket: is empty"},
		"name = \"p\"\nversion = \n":                                                                                           {"2: "},
		"nmae = \"p\"\n" + aPack:                                                                                               {`1: nmae: unknown key, did you mean "name"?`},
		ticket("id='b'\nfile='none.md'\nrole='review'"):                                                                        {"9: ticket.b.file: there is nothing"},
		ticket("id='b'\nfile='../a.md'\nrole='review'"):                                                                        {"9: ticket.b.file: \"../a.md\" is no path below"},
		ticket("id='b'\nfile='/a.md'\nrole='review'"):                                                                          {"9: ticket.b.file: \"/a.md\" is no path below"},
		ticket("id='b'\nfile='big.md'\nrole='review'"):                                                                         {"9: ticket.b.file: larger"},
		ticket("id='b'\nfile='empty.md'\nrole='review'"):                                                                       {"9: ticket.b.file: it is empty"},
		ticket("id='b'\nfile='bin.md'\nrole='review'"):                                                                         {"9: ticket.b.file: it is not UTF-8"},
		ticket("id='b'\nfile='a.md'\nrole='king'"):                                                                             {"10: ticket.b.role: \"king\" is not a role"},
		ticket("id=''\nfile='a.md'\nrole='review'\nneeds=[]\nsha256=''"):                                                       {"7: ticket.a: there are two"},
		ticket("id='b'\nfile=''\nrole='review'"):                                                                               {"7: ticket.b: file is missing"},
		ticket("file='not an id.md'"):                                                                                          {"7: ticket[1]: role is missing", "8: ticket[1].file: \"not an id\" is no id"},
		ticket("id='b'\nname='b'\nfile='a.md'\nrole='review'"):                                                                 {"9: ticket.b.name: unknown key"},
		ticket("id='a'\nfile='a.md'\nrole='review'"):                                                                           {"8: ticket.a.id: there are two tickets"},
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['c']"):                                                              {"11: ticket.b.needs: there is no ticket \"c\""},
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['b']"):                                                              {"11: ticket.b.needs: it needs itself"},
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['a','a']"):                                                          {"11: ticket.b.needs: \"a\" is named twice"},
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['a',1]"):                                                            {"11: ticket.b.needs[1]: expected a string"},
		ticket("id='b'\nfile='a.md'\nrole='review'\nsha256='" + strings.Repeat("0", 64) + "'"):                                 {"11: ticket.b.sha256: the file has another"},
		ticket("id='b'\nfile='a.md'\nrole='review'\nsha256='0'"):                                                               {"11: ticket.b.sha256: a digest is"},
		ticket("id='b'\nfile='a.md'\nrole='review'\nneeds=['c']\n[[ticket]]\nid='c'\nfile='a.md'\nrole='review'\nneeds=['b']"): {"11: ticket.b.needs: a cycle: b -> c -> b"},
	} {
		p, faults := ParsePack("pack.toml", []byte(text), there)
		saysAll(t, text, said(faults), want...)
		if want == nil && (p.Tickets[0].Bytes != 2 || p.Version != "1" || len(p.SHA256) != 64) {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

func TestParse_SaysEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	there := outside(map[string]string{"a.md": "do", "c.toml": "[contract]\n"})
	there.Harness = func(name string) bool { return name == "h" }
	there.Contract = func(name string, _ []byte) config.Faults {
		return config.Faults{{File: name, Line: 1, Key: "contract", Message: "name is missing"}}
	}
	head := "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\n" // then line 5
	for text, want := range map[string][]string{
		head: nil,
		head + "prompt_file='a.md'\ntimeout='168h'\nretry=10\nkind='run'":                                     nil,
		head + "[[node]]\nid='b'\napproval=true\nneeds=['a']":                                                 nil,
		head + "role=''\nprompt_file=''\ntimeout=''\ncontract=''\nretry=0\napproval=false\nneeds=[]\nkind=''": nil,
		head + "[[node]]\nid='b'\nkind='approval'\nharness=''\nretry=0":                                       nil,
		"[workflow]\nname = \"w\"\n":                                                                          {"1: workflow: unknown table", "1: name is missing", "1: [[node]] is missing"},
		"name = \"w\"\n[[nodes]]\nid = \"a\"\n":                                                               {"1: [[node]] is missing", `2: nodes: unknown table, did you mean "node"?`},
		"parallel = 0\n" + head:                                                                               {"1: parallel: is 0"},
		head + "timeout = \"soon\"":                                                                           {"5: node.a.timeout: \"soon\" is not a duration"},
		head + "timeout = \"169h\"":                                                                           {"5: node.a.timeout: \"169h\" is too long"},
		head + "retry = 11":                                                                                   {"5: node.a.retry: is 11"},
		head + "role = \"king\"":                                                                              {"5: node.a.role: \"king\" is not a role"},
		head + "prompt_file = \"../x\"":                                                                       {"5: node.a.prompt_file: \"../x\" is no path below"},
		head + "prompt_file = \"none\"":                                                                       {"5: node.a.prompt_file: there is nothing"},
		head + "kind = \"approval\"":                                                                          {"4: node.a.harness: an approval has needs"},
		head + "kind = \"other\"":                                                                             {"5: node.a.kind: \"other\" is no kind"},
		head + "kind = \"contract\"":                                                                          {"2: node.a: contract is missing"},
		head + "contract = \"c.toml\"":                                                                        {"4: node.a.harness: a contract has needs", "5: node.a.contract: c.toml:1: contract: name is missing"},
		head + "[[node]]\nid = \"b\"":                                                                         {"5: node.b: harness is missing"},
		head + "[[node]]\nid = \"b\"\nharness = \"g\"":                                                        {"7: node.b.harness: no harness is named \"g\""},
		head + "[[node]]\nharness = \"h\"":                                                                    {"5: node[1]: id is missing"},
		head + "[[node]]\nid = \"../b\"\nharness=\"h\"\n":                                                     {"6: node[1].id: \"../b\" is no name"},
		head + "needs = [\"b\"]":                                                                              {"5: node.a.needs: there is no node"},
		head + "argv = [\"rm\"]":                                                                              {"5: node.a.argv: unknown key"},
		head + "needs = [\"b\"]\nretry = \n[[node]]\nid = \"b":                                                {"6: ", "8: "},
		head + "needs=['b']\n[[node]]\nid='b'\nharness='h'\nneeds=['a']\n[[node]]\nid='c'\nharness='h'\nneeds=['a','d']\nretry=-1": {"5: node.a.needs: a cycle: a -> b -> a", "13: node.c.needs: there is no node \"d\"", "14: node.c.retry: is -1"},
	} {
		_, _, faults := Parse("w.toml", []byte(text), there)
		saysAll(t, text, said(faults), want...)
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
		for one := range strings.FieldsSeq(text) {
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
		g, _, faults := Parse("w.toml", text, outside(map[string]string{"a.md": "do"}))
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
		p, faults := ParsePack("pack.toml", manifest, outside(map[string]string{"a.md": "do"}))
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
