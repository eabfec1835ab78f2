package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// validSeeds are values on both sides of JSON's edges.
var validSeeds = []string{
	"", " ", "{}", "[]", " [ ] ", `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `[1,]`, `[1 2]`, `{"a":1 "b":2}`,
	`{1:2}`, `[}`, `{]`, `]`, `}`, `[[]`, `[]]`, `{"a":[{}]}`, `{"a":{}}x`, `[1]{}`, `[:]`, `["a":1]`, `{"a",1}`,
	"0", "-0", "-", "00", "01", "-01", "1.", ".1", "1.0", "1.e1", "1e", "1e+", "1E-5", "1e400", "+1", "0x1", "1-", "1.1.1", "1e1e1", "Infinity", "NaN",
	"true", "tru", "truex", "True", "false", "null", "nul", "nullnull", "t", "-t",
	`""`, `"`, `"\"`, `"\\"`, `"\/\b\f\n\r\t\""`, `"\q"`, `"\u12"`, `"\u12g4"`, `"\uD800"`, `"\udc00\ud800"`, `"\u00`, `'a'`,
	"\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\t\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"ä漢😀\"", "\"123456\xc3\"", "\"1234567890\x1f12345678901234567890\"",
	"\xff", "ä", "\ufeff1", "\v1", "\u00a01", "1\x00", "{\"a\x00\":1}", "{\"a\xff\":1}",
	"\"" + strings.Repeat("x", 100) + "\"", "\"" + strings.Repeat(`\n`, 50) + "\"", "\"" + strings.Repeat("x", 100),
}

func TestValid_AgreesWithEncodingJSON(t *testing.T) {
	seeds := append([]string{}, validSeeds...)
	for _, depth := range []int{63, 64, 65, 127, 128, 129, maxDepth, maxDepth + 1} {
		seeds = append(seeds,
			strings.Repeat("[", depth)+strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth),
			strings.Repeat(`[{"a":`, depth/2)+"1"+strings.Repeat("}]", depth/2),
			strings.Repeat("[", depth)+strings.Repeat("]", depth-1)+"}",
		)
	}
	for _, seed := range seeds {
		err := Valid([]byte(seed))
		if want := oracleValid([]byte(seed)); (err == nil) != want {
			t.Errorf("Valid(%.80q) is %v, want valid %t", seed, err, want)
		}
		if err != nil && !errors.Is(err, ErrSyntax) {
			t.Errorf("Valid(%.80q) is %v, which is no syntax error", seed, err)
		}
	}
}

// TestPeekValid_CountsDepthFromTheTop holds the limit also where objects are
// looked into on the way down.
func TestPeekValid_CountsDepthFromTheTop(t *testing.T) {
	for inside := maxDepth - 4; inside < maxDepth+1; inside++ {
		line := []byte(`{"params":{"_meta":{"progressToken":` + strings.Repeat("[", inside) + strings.Repeat("]", inside) + "}}}")
		if err := PeekValid(line, new(Message)); (err == nil) != oracleValid(line) {
			t.Errorf("with %d inside: %v, want valid %t", inside, err, oracleValid(line))
		}
	}
}

// value draws any JSON text, of any spelling.
func value(depth int) *rapid.Generator[string] {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\t \r\n"})
	text := rapid.Custom(func(t *rapid.T) string {
		part := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9äß漢😀 {}:,\[\]]{0,12}`), rapid.SampledFrom([]string{`\"`, `\\`, `\n`, `\u0069`, `\ud83d\ude00`, `\ud800`}))
		return `"` + strings.Join(rapid.SliceOfN(part, 0, 4).Draw(t, "text"), "") + `"`
	})
	scalar := rapid.OneOf(text, rapid.SampledFrom([]string{"0", "-1.50e+3", "9007199254740993", "1e400", "true", "false", "null"}))
	if depth == 0 {
		return scalar
	}
	key := rapid.OneOf(text, rapid.SampledFrom([]string{`"id"`, `"method"`, `"params"`, `"result"`, `"error"`, `"name"`, `"_meta"`, `"message"`, `"isError"`, `"content"`, `"progressToken"`, `"\u0069d"`}))
	inner := value(depth - 1)
	return rapid.Custom(func(t *rapid.T) string {
		pad := func(s string) string { return space.Draw(t, "space") + s + space.Draw(t, "space") }
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return pad(scalar.Draw(t, "scalar"))
		case 1:
			items := rapid.SliceOfN(inner, 0, 4).Draw(t, "items")
			return pad("[" + strings.Join(items, ",") + space.Draw(t, "space") + "]")
		}
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, pad(key.Draw(t, "key"))+":"+pad(inner.Draw(t, "value")))
		}
		return pad("{" + strings.Join(members, ",") + space.Draw(t, "space") + "}")
	})
}

func TestValid_AcceptsAnySpellingAndNoneOfItsFragments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := []byte(value(4).Draw(t, "line"))
		if err := Valid(line); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		cut := line[:rapid.IntRange(0, len(line)).Draw(t, "cut")]
		if got, want := Valid(cut) == nil, json.Valid(cut) && oracleValid(cut); got != want {
			t.Errorf("%q: valid %t, want %t", cut, got, want)
		}
	})
}

func TestPeek_AgreesWithItsOracleOnAnySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := []byte(value(4).Draw(t, "line"))
		want, wantErr := oraclePeek(line)
		for name, peek := range peeks {
			var m Message
			if err := peek(line, &m); !errors.Is(err, wantErr) {
				t.Fatalf("%s(%q): error is %v, want %v", name, line, err, wantErr)
			}
			if wantErr == nil && m != *want {
				t.Errorf("%s(%q) is %+v, want %+v", name, line, m, *want)
			}
		}
	})
}

func FuzzValid(f *testing.F) {
	for _, seed := range validSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		// The end of the line must not be found by what lies behind it.
		behind := append(bytes.Clone(line), `"]}0`...)[:len(line)]
		for _, b := range [][]byte{line, behind} {
			if err := Valid(b); (err == nil) != oracleValid(b) {
				t.Errorf("Valid is %v, want valid %t", err, oracleValid(b))
			}
		}
	})
}
