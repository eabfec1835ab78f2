package plain_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/plain"
)

func TestText_EscapesWhatActsAndKeepsWhatIsSeen(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"words", "Grüße, 世界 👋", "Grüße, 世界 👋"},
		{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"lines", "a\r\n\tb", `a\r\n\tb`},
		{"bell, delete and NUL", "\a\x7f\x00", `\x07\x7f\x00`},
		{"C1 control", "a\u009bb", `a\u009bb`},
		{"bidirectional override", "a\u202ecod.exe\u2066", `a\u202ecod.exe\u2066`},
		{"direction marks", "\u200e\u200f\u061c", `\u200e\u200f\u061c`},
		{"line separators", "a\u2028b\u2029", `a\u2028b\u2029`},
		{"not UTF-8", "a\xff\xc3(", `a\xff\xc3(`},
		{"a real replacement character", "a\ufffdb", "a\ufffdb"},
		{"backslash", `C:\new`, `C:\new`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, plain.Text(tc.in)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff("> "+tc.want, string(plain.Append([]byte("> "), []byte(tc.in)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestText_DoesNotTouchTheCallersBytes(t *testing.T) {
	in := strings.Repeat("a", 8) + "\x00tail"
	plain.Text(in)
	if diff := cmp.Diff("aaaaaaaa\x00tail", in); diff != "" {
		t.Error(diff)
	}
}

func FuzzText_IsPlainAndStable(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x1b]0;title\a", "\u202e\xff\u2028", "é\xe2\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := plain.Text(in)
		if !utf8.ValidString(out) {
			t.Errorf("Text(%q) is not UTF-8: %q", in, out)
		}
		if strings.IndexFunc(out, unicode.IsControl) >= 0 || strings.IndexFunc(out, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }) >= 0 {
			t.Errorf("Text(%q) = %q still acts", in, out)
		}
		if again := plain.Text(out); again != out {
			t.Errorf("Text is not stable: %q, then %q", out, again)
		}
	})
}
