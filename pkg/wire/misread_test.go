package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"harness/pkg/wire"
)

func TestMisread_NamesTheKeyAndWhatWasExpected(t *testing.T) {
	t.Parallel()
	type inner struct {
		Count int `json:"count"`
	}
	type asked struct {
		Timeout string   `json:"timeout"`
		Session *string  `json:"session"`
		Async   *bool    `json:"async"`
		Approve []string `json:"approve"`
		Inner   inner    `json:"inner"`
		Share   float64  `json:"share"`
	}
	for text, want := range map[string]string{
		`{"timeout":5}`:            "timeout: a string is expected, not a number",
		`{"session":[]}`:           "session: a string is expected, not an array",
		`{"async":"yes"}`:          "async: true or false is expected, not a string",
		`{"approve":{}}`:           "approve: an array is expected, not an object",
		`{"inner":true}`:           "inner: an object is expected, not true or false",
		`{"inner":{"count":"1"}}`:  "inner.count: a whole number that is not too large is expected, not a string",
		`{"inner":{"count":1e99}}`: "inner.count: a whole number that is not too large is expected, not a number 1e99",
		`{"share":"1"}`:            "share: a number is expected, not a string",
		`[]`:                       "an object is expected, not an array",
		`{"nothing":1}`:            `unknown field "nothing"`,
	} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		err := dec.Decode(&asked{})
		if err == nil {
			t.Fatal(text)
		}
		if got := wire.Misread(err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
