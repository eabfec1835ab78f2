package prompt

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRender_C55_TellsGivenFromMissing: required, optional, empty and extra.
func TestRender_C55_TellsGivenFromMissing(t *testing.T) {
	greet := &Prompt{
		Arguments: []Argument{{Name: "tone"}, {Name: "who", Required: true}, {Name: "why", Required: true}},
		Body:      []byte("Hi {{who}}{{ tone }}, {{why}}."),
	}
	plain := &Prompt{Body: []byte("Hi {{who}}.")}
	for _, tt := range []struct {
		name    string
		p       *Prompt
		args    map[string]string
		want    string
		missing string
	}{
		{"no arguments at all", greet, nil, "", "who"},
		{"empty arguments", greet, map[string]string{}, "", "who"},
		{"one required is missing", greet, map[string]string{"who": "x", "tone": "y"}, "", "why"},
		{"empty counts as given", greet, map[string]string{"who": "", "why": ""}, "Hi , .", ""},
		{"optional and missing is nothing", greet, map[string]string{"who": "x", "why": "y"}, "Hi x, y.", ""},
		{"optional and given", greet, map[string]string{"who": "x", "why": "y", "tone": "!"}, "Hi x!, y.", ""},
		{"extra is ignored", greet, map[string]string{"who": "x", "why": "y", "extra": "z"}, "Hi x, y.", ""},
		{"nothing declared", plain, nil, "Hi {{who}}.", ""},
		{"nothing declared, something given", plain, map[string]string{"who": "x"}, "Hi {{who}}.", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := tt.p.Render(tt.args)
			missing := ""
			if argErr, ok := errors.AsType[*ArgumentError](err); ok {
				missing = argErr.Name
			} else if err != nil {
				t.Fatal(err)
			}
			if string(text) != tt.want || missing != tt.missing {
				t.Errorf("text %q, missing %q; want %q, %q", text, missing, tt.want, tt.missing)
			}
		})
	}
}

func TestRender_KnowsWhatAPlaceholderIs(t *testing.T) {
	p := &Prompt{Arguments: []Argument{{Name: "a"}, {Name: "b.c-d_9"}}}
	for body, want := range map[string]string{
		"{{a}}":                 "1",
		"{{ a\t}}":              "1",
		"{{a}}{{a}}":            "11",
		"{{b.c-d_9}}":           "2",
		"{{{a}}}":               "{1}",
		"{{{{a}}}}":             "{{1}}",
		"{ {a}}":                "{ {a}}",
		"{{a} }":                "{{a} }",
		"{{\na}}":               "{{\na}}",
		"{{a b}}":               "{{a b}}",
		"{{A}}":                 "{{A}}",
		"{{a":                   "{{a",
		"{{a}":                  "{{a}",
		"{{":                    "{{",
		"{{}}":                  "{{}}",
		"{{ }}":                 "{{ }}",
		"{{b {{a}}":             "{{b 1",
		"\\{{a}}":               "\\1",
		"{{\u00a0a}}":           "{{\u00a0a}}",
		"$a ${a} {a} <a> %a %%": "$a ${a} {a} <a> %a %%",
	} {
		p.Body = []byte(body)
		text, err := p.Render(map[string]string{"a": "1", "b.c-d_9": "2"})
		if err != nil || string(text) != want {
			t.Errorf("%q renders as %q, %v; want %q", body, text, err, want)
		}
	}
}

// TestRender_NeverExpandsAValue builds bodies of known pieces, so that the text
// is known without looking for placeholders.
func TestRender_NeverExpandsAValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"{{a}}", "{{b}}", "{{", "}}", "a}}", "{", "$1", "\\1"}))
		values := map[string]string{"a": value.Draw(t, "a"), "b": value.Draw(t, "b")}
		p := &Prompt{Arguments: []Argument{{Name: "a", Required: true}, {Name: "b", Required: true}}}
		var want strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, "pieces") {
			name := rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "name")
			if name == "" {
				literal := rapid.StringMatching(`[^{}]*`).Draw(t, "literal")
				p.Body = append(p.Body, literal...)
				want.WriteString(literal)
				continue
			}
			p.Body = append(p.Body, "{{"+name+"}}"...)
			want.WriteString(values[name])
		}
		text, err := p.Render(values)
		if err != nil || string(text) != want.String() {
			t.Errorf("body %q with %q renders as %q, %v; want %q", p.Body, values, text, err, want.String())
		}
	})
}

func TestRender_RefusesToMultiplyWithoutEnd(t *testing.T) {
	p := &Prompt{Arguments: []Argument{{Name: "a"}}, Body: []byte(strings.Repeat("{{a}}", MaxFile/5))}
	args := map[string]string{"a": strings.Repeat("x", MaxRendered/(MaxFile/5))}
	text, err := p.Render(args)
	if err != nil || len(text) > MaxRendered {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	args["a"] += "xx"
	if _, err := p.Render(args); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestRender_LeavesThePromptAlone(t *testing.T) {
	p := &Prompt{Body: []byte("no placeholder")}
	text, err := p.Render(nil)
	if err != nil {
		t.Fatal(err)
	}
	text[0] = 'N'
	if string(p.Body) != "no placeholder" {
		t.Errorf("body is now %q", p.Body)
	}
}

func TestArgumentError_NamesTheArgument(t *testing.T) {
	err := &ArgumentError{Name: "who"}
	if got, want := err.Error(), `missing required argument "who"`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzRender compares with the shortest description of what Render does.
func FuzzRender(f *testing.F) {
	f.Add("Hi {{who}} {{ tone }}", "x", "{{who}}")
	f.Add("{{{who}}} {{{{tone}}}}", "}}", "{{")
	f.Add("{{who {{tone}} }}", "", "$1")
	ph := regexp.MustCompile(`\{\{[ \t]*([A-Za-z0-9_.-]+)[ \t]*\}\}`)
	f.Fuzz(func(t *testing.T, body, who, tone string) {
		p := &Prompt{Arguments: []Argument{{Name: "who", Required: true}, {Name: "tone"}}, Body: []byte(body)}
		values := map[string]string{"who": who, "tone": tone}
		want := ph.ReplaceAllStringFunc(body, func(s string) string {
			if value, ok := values[strings.Trim(s, "{} \t")]; ok {
				return value
			}
			return s
		})
		text, err := p.Render(values)
		if err != nil || string(text) != want {
			t.Errorf("body %q renders as %q, %v; want %q", body, text, err, want)
		}
	})
}
