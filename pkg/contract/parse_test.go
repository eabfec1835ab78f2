package contract

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/ledger"
)

const whole = `
[contract]
name = "unit tests pass"
workdir = "./sub/"
timeout = "1m"
max_output = "2MiB"
env = ["PATH", "HOME", "PATH"]
max_cpu = "30s"
max_memory = "1GiB"
parallel = 4

[work]
cmd = "sh"
args = ["-c", "make build"]
prompt_file = "do.md"
timeout = "30s"

[[check]]
name = "tests"
cmd = "go"
args = ["test", "./..."]
exit = 1
stdout = "^ok"
stderr = "x"
timeout = "5m"

[[check]]
name = "artefact"
file = "out/app"
json = { pointer = "/version", equals = [1, "a", { b = true }] }
`

func parse(t *testing.T, text string) *Spec {
	t.Helper()
	s, faults := Parse("c.toml", []byte(text))
	if len(faults) > 0 {
		t.Fatalf("%v", faults)
	}
	return s
}

func TestParse_ReadsEveryKey(t *testing.T) {
	want := &Spec{
		Name: "unit tests pass", Workdir: "sub", Timeout: time.Minute, MaxOutput: 2 << 20, Env: []string{"HOME", "PATH"},
		MaxCPU: 30 * time.Second, MaxMemory: 1 << 30, Parallel: 4,
		Work: &Work{Cmd: "sh", Args: []string{"-c", "make build"}, PromptFile: "do.md", Timeout: 30 * time.Second},
		Checks: []Check{
			{Name: "tests", Cmd: "go", Args: []string{"test", "./..."}, Exit: 1, Stdout: "^ok", Stderr: "x", Timeout: 5 * time.Minute, Exists: true},
			{Name: "artefact", Args: []string{}, File: "out/app", Exists: true, JSON: &Value{"/version", json.RawMessage(`[1,"a",{"b":true}]`)}},
		},
	}
	if diff := cmp.Diff(want, parse(t, whole)); diff != "" {
		t.Error(diff)
	}
}

// The form is documented: whoever has the text can compute the digest.
func TestDigest_IsOfTheFormThatIsDocumented(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[contract]\nname='x'\n[[check]]\nname='a'\ncmd='true'\n[[check]]\nname='b'\nfile='f'\n": `{"checks":[{"args":[],"cmd":"true","exit":0,"name":"a","stderr":"","stdout":"","timeout_ms":0},` +
			`{"exists":true,"file":"f","name":"b","sha256":"","timeout_ms":0}],"env":[],"max_cpu_ms":0,"max_memory":0,"max_output":1048576,` +
			`"name":"x","parallel":1,"schema":"harness/contract/v1","timeout_ms":600000,"workdir":"."}`,
		"[contract]\nname='x'\nenv=['PATH','A']\n[work]\nharness='h'\nprompt='p'\n[[check]]\nname='a'\nfile='f'\njson={pointer='/a',equals=1.0}\n": `{"checks":[{"exists":true,"file":"f","json":{"equals":"1","pointer":"/a"},"name":"a","sha256":"","timeout_ms":0}],` +
			`"env":["A","PATH"],"max_cpu_ms":0,"max_memory":0,"max_output":1048576,"name":"x","parallel":1,"schema":"harness/contract/v1","timeout_ms":600000,` +
			`"work":{"args":[],"cmd":"","harness":"h","prompt":"p","prompt_file":"","timeout_ms":0},"workdir":"."}`,
	} {
		spec, faults := Parse("c.toml", []byte(text))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		form, err := spec.Canonical()
		if diff := cmp.Diff(want, string(form)); err != nil || diff != "" {
			t.Error(diff, err)
		}
		digest, err := spec.Digest()
		if err != nil || digest != ledger.SHA256([]byte(want)) {
			t.Errorf("%s, %v", digest, err)
		}
	}
}

func TestDigest_IsOfWhatAContractMeans(t *testing.T) {
	digest := func(text string) string {
		sum, err := parse(t, text).Digest()
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	const short = "[contract]\nname='x'\n[[check]]\nname='a'\ncmd='true'\n"
	same := "# a comment\ncheck = [{cmd=\"true\", name='a', exit=0, args=[]}]\ncontract.name='x'\ncontract.timeout='10m'\ncontract.workdir='./'\ncontract.parallel=1\n"
	if digest(short) != digest(same) {
		t.Error("written in another way it has another digest")
	}
	seen := map[string]string{digest(short): short}
	for _, more := range []string{
		"exit=1\n", "args=['x']\n", "timeout='1s'\n", "stdout='x'\n", "stderr='x'\n", "[[check]]\nname='b'\nfile='f'\n",
		"[[check]]\nname='b'\nfile='f'\nexists=false\n", "[[check]]\nname='b'\nfile='f'\njson={pointer='',equals=1}\n",
		"[[check]]\nname='b'\nfile='f'\njson={pointer='',equals='1'}\n", "[work]\ncmd='x'\n", "[work]\ncmd='x'\nprompt='y'\n", "[work]\nharness='x'\n",
	} {
		sum := digest(short + more)
		if other, taken := seen[sum]; taken {
			t.Errorf("%q and %q are the same", more, other)
		}
		seen[sum] = more
	}
}

func TestParse_ReportsEveryFaultWithItsPlace(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "c.toml:1: [contract] is missing\nc.toml:1: [[check]] is missing: nothing would have to hold"},
		{"[contract]\n[[check]]\n", "c.toml:1: contract: name is missing\nc.toml:2: check[0]: name is missing\nc.toml:2: check[0]: cmd or file is missing"},
		{`[contract]
nmae = "x"
name = ""
timeout = 5
max_output = "1 MB"
env = ["A=B", "HARNESS_X", 3]
workdir = "/tmp"
max_cpu = "1500ms"
parallel = 0
[wrok]
[work]
cmd = "x"
harness = "y"
prompt = "a"
prompt_file = "../b"
[[check]]
name = "a"
cmd = "x"
file = "y"
exit = 256
stdout = "("
[[check]]
name = "a"
file = "f"
args = ["x"]
exists = false
sha256 = "ABC"
json = { pointer = "a", equals = 1979-05-27, more = 1 }
`, `c.toml:2: contract.nmae: unknown key, did you mean "name"?
c.toml:3: contract.name: is empty
c.toml:4: contract.timeout: expected a duration such as "500ms", "5s" or "10m", got an integer
c.toml:5: contract.max_output: "1 MB" is not a size such as "512KiB" or "64MiB" (units: B KB KiB MB MiB GB GiB)
c.toml:6: contract.env[0]: "A=B": not the name of a variable: letters, digits and _ only, and no digit first
c.toml:6: contract.env[1]: "HARNESS_X": HARNESS_* is set by harness itself
c.toml:6: contract.env[2]: expected a string, got an integer
c.toml:7: contract.workdir: "/tmp" is absolute, expected a path below the contract's directory
c.toml:8: contract.max_cpu: the kernel counts whole seconds of processor time
c.toml:9: contract.parallel: is 0, expected at least 1 and at most 64
c.toml:10: wrok: unknown table, did you mean "work"?
c.toml:13: work.harness: cmd and harness exclude each other
c.toml:15: work.prompt_file: "../b" leads out of the contract's directory
c.toml:15: work.prompt_file: prompt and prompt_file exclude each other
c.toml:19: check[0].file: cmd and file exclude each other
c.toml:20: check[0].exit: is 256, expected at least 0 and at most 255
c.toml:21: check[0].stdout: is not a regular expression: missing closing ): ` + "`(`" + `
c.toml:22: check[1]: name "a" is that of check 1 too
c.toml:25: check[1].args: args is for a table with cmd
c.toml:27: check[1].sha256: is not 64 lower-case hexadecimal digits
c.toml:27: check[1].sha256: a file that must not exist has no content to compare
c.toml:28: check[1].json.equals: is a date or time, which JSON does not have; quote it
c.toml:28: check[1].json.more: unknown key
c.toml:28: check[1].json.pointer: "a" is not a JSON pointer: it begins with no /
c.toml:28: check[1].json: a file that must not exist has no content to compare`},
		{"[contract]\nname = \"x\nenv = []\n[[check]]\ncmd='true'\nname='a'\n", "c.toml:2: contract.name: invalid TOML: basic strings cannot have new lines"},
		{strings.Repeat("#", MaxText+1), "c.toml: contract has more than 262144 bytes"},
		{"\xff", "c.toml:1: byte 0xff is not UTF-8, which is the encoding expected"},
	} {
		s, faults := Parse("c.toml", []byte(tc.text))
		got := faults.Error()
		if diff := cmp.Diff(strings.Split(tc.want, "\n"), strings.Split(got, "\n")); diff != "" || s != nil {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(sh("true")))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, faults := Parse("c.toml", text)
		if (s == nil) != (len(faults) > 0) {
			t.Fatalf("%v, %v", s, faults)
		}
		if s == nil {
			return
		}
		if _, err := s.Digest(); err != nil {
			t.Fatal(err)
		}
	})
}
