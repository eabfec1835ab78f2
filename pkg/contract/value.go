package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"harness/pkg/config"
)

// jsonValue reads {pointer = "/version", equals = "1.2"}.
func jsonValue(n config.Node) *Value {
	v := &Value{}
	found := n.Fields(map[string]func(config.Node){
		"pointer": func(n config.Node) {
			v.Pointer = n.Text()
			if _, err := splitPointer(v.Pointer); err != nil {
				n.Fault("%s", err)
			}
		},
		"equals": func(n config.Node) {
			if problem := jsonProblem(n.Raw()); problem != "" {
				n.Fault("%s", problem)
				return
			}
			v.Equals, _ = json.Marshal(n.Raw()) // what jsonProblem lets through can be encoded
		},
	})
	for _, key := range []string{"pointer", "equals"} {
		if _, ok := found[key]; !ok && n.Complete() {
			n.Fault("%s is missing", key)
		}
	}
	return v
}

// jsonProblem says why a value of TOML is none of JSON, or "".
func jsonProblem(raw any) string {
	switch v := raw.(type) {
	case string, bool, int64:
		return ""
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "is a number that JSON does not have"
		}
		return ""
	case []any:
		for _, e := range v {
			if problem := jsonProblem(e); problem != "" {
				return problem
			}
		}
		return ""
	case map[string]any:
		for _, e := range v {
			if problem := jsonProblem(e); problem != "" {
				return problem
			}
		}
		return ""
	}
	return "is a date or time, which JSON does not have; quote it"
}

// splitPointer reads an RFC 6901 pointer.
func splitPointer(s string) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("%s is not a JSON pointer: it begins with no /", config.Show(s))
	}
	parts := strings.Split(s[1:], "/")
	for i, part := range parts {
		for rest := part; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, fmt.Errorf("%s is not a JSON pointer: ~ stands before 0 or 1 only", config.Show(s))
			}
			rest = after
		}
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts, nil
}

// errNoValue is what lookUp returns where the pointer leads nowhere.
var errNoValue = errors.New("the document has nothing at the pointer")

// holds says why the document does not have v, or nil.
func (v *Value) holds(document []byte) error {
	have, err := decodeOne(document)
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if name, twice := repeated(document); twice {
		return fmt.Errorf("the document has the member %s twice, and so says two things", config.Show(name))
	}
	parts, err := splitPointer(v.Pointer)
	if err != nil {
		return err
	}
	have, err = lookUp(have, parts)
	if err != nil {
		return err
	}
	want, err := decodeOne(v.Equals)
	if err != nil {
		return err
	}
	if !equalJSON(want, have) {
		return errors.New("the value at the pointer is another one")
	}
	return nil
}

// decodeOne reads one JSON value, numbers as they are spelled.
func decodeOne(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

// repeated finds a member that an object of a document has twice: of such a one
// every reader takes the value that it likes. The document has to be JSON.
func repeated(data []byte) (name string, twice bool) {
	type object struct {
		seen  map[string]bool // nil for an array
		value bool            // what comes next is the value of a member
	}
	var within []object
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return "", false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			within = within[:len(within)-1]
			continue
		}
		if n := len(within); n > 0 && within[n-1].seen != nil {
			in := &within[n-1]
			if in.value = !in.value; in.value {
				key, _ := token.(string)
				if in.seen[key] {
					return key, true
				}
				in.seen[key] = true
				continue
			}
		}
		switch token {
		case json.Delim('{'):
			within = append(within, object{seen: map[string]bool{}})
		case json.Delim('['):
			within = append(within, object{})
		}
	}
}

func lookUp(v any, parts []string) (any, error) {
	for _, part := range parts {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[part]
			if !ok {
				return nil, errNoValue
			}
			v = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) || strconv.Itoa(i) != part {
				return nil, errNoValue
			}
			v = in[i]
		default:
			return nil, errNoValue
		}
	}
	return v, nil
}

// equalJSON compares values, numbers by what they mean.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && equalNumbers(string(a), string(b))
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalJSON(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			other, ok := b[k]
			if !ok || !equalJSON(a[k], other) {
				return false
			}
		}
		return true
	}
	return a == b
}

// equalNumbers compares without a loss, but not at the price of an exponent
// that takes a gigabyte to write out.
func equalNumbers(a, b string) bool {
	if a == b {
		return true
	}
	if !modest(a) || !modest(b) {
		return false
	}
	p, okP := new(big.Rat).SetString(a)
	q, okQ := new(big.Rat).SetString(b)
	return okP && okQ && p.Cmp(q) == 0
}

// modest reports whether a number can be written out in little space.
func modest(number string) bool {
	const digits = 400
	mantissa, exponent, found := strings.Cut(strings.ToLower(number), "e")
	if !found {
		return len(mantissa) <= digits
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && max(n, -n) <= digits && len(mantissa) <= digits
}
