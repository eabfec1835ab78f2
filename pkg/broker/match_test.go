package broker

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A template is read as the regular expression that it stands for.
func TestMatches_IsTheRegularExpressionOfTheTemplate(t *testing.T) {
	parts := []string{"{a}", "{+a}", "{/a*}", "{}", "a", "/", "x://", "}", "é", "a{?b,c}"}
	as := map[string]string{"{a}": "[^/]+", "{}": "[^/]+", "{+a}": ".*", "{/a*}": ".*", "a{?b,c}": "a.*"}
	rapid.Check(t, func(t *rapid.T) {
		var expr, template strings.Builder
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(parts), 0, 6).Draw(t, "template") {
			template.WriteString(p)
			if as[p] == "" {
				p = regexp.QuoteMeta(p)
			} else {
				p = as[p]
			}
			expr.WriteString(p)
		}
		uri := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "/", "x://", "}", "é"}), 0, 8).Draw(t, "uri"), "")
		want := regexp.MustCompile("(?s)^(?:" + expr.String() + ")$").MatchString(uri)
		if got := matches(template.String(), uri); got != want {
			t.Fatalf("matches(%q, %q) = %t", template.String(), uri, got)
		}
	})
	if matches("{a}{a}", "é") {
		t.Error("one character was taken for two")
	}
	if matches("x://{a", "x://{a") || matches("{", "{") {
		t.Error("an expression that does not end")
	}
}

// An upstream's template must not hold up who reads a resource.
func TestMatches_TakesNoLongerThanBothLengths(t *testing.T) {
	for _, of := range []string{"{+a}", "{a}", "{a}b"} {
		if matches("x://"+strings.Repeat(of, 100)+"#", "x://"+strings.Repeat("b", 5000)) {
			t.Errorf("%s matches", of)
		}
	}
}
