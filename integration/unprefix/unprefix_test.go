package unprefix_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/integration/unprefix"
)

func TestFilter_PutsThePrefixOnAndTakesItOff(t *testing.T) {
	t.Parallel()
	f := unprefix.New("up__")
	for _, c := range []struct {
		change    func([]byte) []byte
		line, out string
	}{
		{f.Request, `{"id":1,"method":"tools/call","params":{"arguments":{"a":1.0,"name":"x"},"name":"t"}}`, `{"id":1,"method":"tools/call","params":{"arguments":{"a":1.0,"name":"x"},"name":"up__t"}}`},
		{f.Request, `{"id":2,"method":"prompts/get","params":{"name":"<p>"}}`, `{"id":2,"method":"prompts/get","params":{"name":"up__\u003cp\u003e"}}`},
		{f.Request, `{"id":3,"method":"completion/complete","params":{"ref":{"name":"p","type":"ref/prompt"}}}`, `{"id":3,"method":"completion/complete","params":{"ref":{"name":"up__p","type":"ref/prompt"}}}`},
		{f.Request, `{ "id":4,"method":"resources/read","params":{"name":"p"}}`, `{ "id":4,"method":"resources/read","params":{"name":"p"}}`},
		{f.Request, `nonsense`, `nonsense`},
		{f.Answer, `{"id":5,"result":{"tools":[{"name":"up__t"}]}}`, `{"id":5,"result":{"tools":[{"name":"up__t"}]}}`},
		{f.Request, `{"id":5,"method":"tools/list"}`, `{"id":5,"method":"tools/list"}`},
		{f.Answer, `{"id":5,"result":{"tools":[{"name":"up__t","x":1.0},{"name":"other"}],"x":1e400}}`, `{"id":5,"result":{"tools":[{"name":"t","x":1.0}],"x":1e400}}`},
		{f.Answer, `{"id":5,"result":{"tools":[{"name":"up__t"}]}}`, `{"id":5,"result":{"tools":[{"name":"up__t"}]}}`},
		{f.Answer, `{"id":5,"method":"ping"}`, `{"id":5,"method":"ping"}`},
	} {
		if diff := cmp.Diff(c.out, string(c.change([]byte(c.line)))); diff != "" {
			t.Error(diff)
		}
	}
}
