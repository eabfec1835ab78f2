package broker

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// expose is the name of an original that is there alone.
func expose(o Original) string { return ExposeAll([]Original{o})[0] }

func TestExpose_RewritesOnlyWhatAgentsRefuse(t *testing.T) {
	long := strings.Repeat("x", 46) // with the key 49, 50 and 51 characters
	tests := []struct{ name, key, tool, want string }{
		{"a plain name stays", "git", "log", "git__log"},
		{"case, digits and both marks are plain", "k", "Upper-Case_9", "k__Upper-Case_9"},
		{"a dot", "k", "a.b", "k__a_b_f4c34c"},
		{"a slash", "k", "a/b", "k__a_b_3a7dec"},
		{"a space", "k", "has space", "k__has_space_75052c"},
		{"one mark for each character, not byte", "k", "ünï", "k___n__00bf3f"},
		{"bytes that are no characters", "k", "\xff\xfe", "k_____e7930c"},
		{"50 characters stay", "k", long + "y", "k__" + long + "y"},
		{"51 characters are cut", "k", long + "yz", "k__" + long[:40] + "_8a35d5"},
		{"a prompt file has no key", "", "review", "review"},
		{"a prompt file of spaces", "", "my prompt", "my_prompt_e7bbc2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, expose(Original{tt.key, tt.tool})); diff != "" {
				t.Errorf("exposed name (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExposeAll_KeepsTheSmallestOfNamesThatFoldToOne(t *testing.T) {
	originals := []Original{{"k", "a_b"}, {"k", "a-b"}, {"k", "other"}, {"k", "a_b"}}
	want := []string{rewrite("k__a_b", 0), "k__a-b", "k__other", rewrite("k__a_b", 0)}
	if diff := cmp.Diff(want, ExposeAll(originals)); diff != "" {
		t.Errorf("exposed names (-want +got):\n%s", diff)
	}
}

func TestExposeAll_NeverTakesAPlainNameForARewrittenOne(t *testing.T) {
	squatter := expose(Original{"k", "a.b"})
	own := strings.TrimPrefix(squatter, "k__")
	want := []string{rewrite("k__a.b", 1), squatter}
	if diff := cmp.Diff(want, ExposeAll([]Original{{"k", "a.b"}, {"k", own}})); diff != "" {
		t.Errorf("exposed names (-want +got):\n%s", diff)
	}
}

func TestExposeAll_TellsOriginalsApartThatAreSpelledAlike(t *testing.T) {
	got := ExposeAll([]Original{{"a", "b__c"}, {"a__b", "c"}, {"", "a__b__c"}})
	want := []string{rewrite("a__b__c", 0), rewrite("a__b__c", 1), "a__b__c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exposed names (-want +got):\n%s", diff)
	}
}

// C21: two of the names are equal in their first 90 characters.
func TestExposeAll_ShortensLongNamesWithoutMeeting(t *testing.T) {
	var originals []Original
	for _, n := range []int{50, 64, 100, 200} {
		originals = append(originals, Original{"up", strings.Repeat("n", n)})
	}
	originals = append(originals, Original{"up", strings.Repeat("n", 90) + "-else"})
	checkNames(t, originals, ExposeAll(originals))
}

var agentName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,50}$`)

// failer is what tests and properties have in common.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkNames checks what must hold for any set of names.
func checkNames(t failer, originals []Original, names []string) {
	t.Helper()
	owners := map[string]Original{}
	for i, name := range names {
		if !agentName.MatchString(name) {
			t.Errorf("%v is exposed as %q", originals[i], name)
		}
		if other, taken := owners[fold(name)]; taken && other != originals[i] {
			t.Errorf("%v and %v are both exposed as %q, folded", other, originals[i], name)
		}
		owners[fold(name)] = originals[i]
	}
}

// confusable draws originals that often fold, cut or rewrite to one name.
func confusable() *rapid.Generator[[]Original] {
	part := rapid.SampledFrom([]string{"a", "b", "-", "_", "__", ".", "ü", "\xff", strings.Repeat("x", 45)})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "")
	})
	original := rapid.Custom(func(t *rapid.T) Original {
		return Original{rapid.SampledFrom([]string{"", "k", "k-", "k_"}).Draw(t, "key"), text.Draw(t, "tool")}
	})
	return rapid.SliceOfN(original, 0, 30)
}

func TestExposeAll_IsUniqueAndBlindToOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		originals := confusable().Draw(t, "originals")
		names := ExposeAll(originals)
		checkNames(t, originals, names)
		order := make([]int, len(originals))
		for i := range order {
			order[i] = i
		}
		var shuffled []Original
		var want []string
		for _, i := range rapid.Permutation(order).Draw(t, "order") {
			shuffled, want = append(shuffled, originals[i]), append(want, names[i])
		}
		if diff := cmp.Diff(want, ExposeAll(shuffled), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("names after a shuffle (-want +got):\n%s", diff)
		}
	})
}

func TestExposeAll_IsStableUnderUnrelatedNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		originals := confusable().Draw(t, "originals")
		unrelated := rapid.SliceOf(rapid.StringMatching(`[c-j]{1,9}`)).Draw(t, "unrelated")
		more := slices.Clip(originals)
		for _, name := range unrelated {
			more = append(more, Original{"zz", name})
		}
		if diff := cmp.Diff(ExposeAll(originals), ExposeAll(more)[:len(originals)]); diff != "" {
			t.Errorf("names beside others (-want +got):\n%s", diff)
		}
	})
}

func TestExposeAll_KeepsPlainNamesThatNothingIsConfusedWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		originals := confusable().Draw(t, "originals")
		byFold := map[string]map[Original]bool{}
		for _, o := range originals {
			f := fold(o.String())
			if byFold[f] == nil {
				byFold[f] = map[Original]bool{}
			}
			byFold[f][o] = true
		}
		for i, name := range ExposeAll(originals) {
			own := originals[i].String()
			if len(byFold[fold(own)]) == 1 && isPlain(own) && name != own {
				t.Errorf("%q is exposed as %q", own, name)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("git", "log", "git", "lo-g")
	f.Add("k", "a.b", "k", "a/b")
	f.Add("", "prompt", "k", "\xff")
	f.Fuzz(func(t *testing.T, key1, name1, key2, name2 string) {
		originals := []Original{{key1, name1}, {key2, name2}}
		names := ExposeAll(originals)
		checkNames(t, originals, names)
		if reversed := ExposeAll([]Original{{key2, name2}, {key1, name1}}); reversed[0] != names[1] || reversed[1] != names[0] {
			t.Errorf("names are %q and, the other way round, %q", names, reversed)
		}
	})
}
