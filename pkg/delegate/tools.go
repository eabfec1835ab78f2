package delegate

import "encoding/json"

// The four tools. There are no others.
const (
	toolRun     = "harness_run_contract"
	toolStatus  = "harness_contract_status"
	toolVerdict = "harness_ledger_verdict"
	toolExport  = "harness_ledger_export"
)

// tool is one of them as it is listed.
type tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  annotations     `json:"annotations"`
}

type annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

const example = "[contract]\\nname = \\\"unit tests pass\\\"\\nenv = [\\\"PATH\\\", \\\"HOME\\\"]\\n\\n[[check]]\\nname = \\\"tests\\\"\\ncmd = \\\"go\\\"\\nargs = [\\\"test\\\", \\\"./...\\\"]\\n"

const sessionSchema = `{"type":"string","minLength":1,"maxLength":64,"pattern":"^[A-Za-z0-9_-]+$","description":"the session's name","examples":["20260102-150405-k3j5x7qa"]}`

const inputRun = `{"type":"object","additionalProperties":false,"required":["contract"],"properties":{` +
	`"contract":{"type":"string","minLength":1,"maxLength":262144,"description":"the contract: its TOML text, or the path of a file under this server's working directory","examples":["` + example + `","contracts/tests.toml"]},` +
	`"session":` + sessionSchema + `,` +
	`"async":{"type":"boolean","default":false,"description":"return at once with status running; ask harness_contract_status for more","examples":[true]}}}`

const inputSession = `{"type":"object","additionalProperties":false,"required":["session"],"properties":{"session":` + sessionSchema + `}}`

const answerSchema = `{"type":"object","required":["session","status","verdict","head_hash","bundle_ref"],"properties":{` +
	`"session":{"type":"string"},"status":{"enum":["running","done","interrupted"]},` +
	`"verdict":{"type":["object","null"],"required":["outcome","contract_sha256","sandbox","checks","signature","public_key"],"properties":{` +
	`"outcome":{"enum":["pass","fail","error","timeout","cancelled"]},"contract_sha256":{"type":"string"},"sandbox":{"type":"string"},` +
	`"checks":{"type":"array","items":{"type":"object","required":["name","outcome","exit_code","evidence_sha256"],"properties":{` +
	`"name":{"type":"string"},"outcome":{"enum":["pass","fail","error","timeout","cancelled","skipped"]},"exit_code":{"type":["integer","null"]},"evidence_sha256":{"type":["string","null"]}}}},` +
	`"signature":{"type":"string"},"public_key":{"type":"string"}}},` +
	`"head_hash":{"type":"string"},` +
	`"bundle_ref":{"type":"object","required":["tool","session"],"properties":{"tool":{"const":"harness_ledger_export"},"session":{"type":"string"}}}}}`

const bundleSchema = `{"type":"object","required":["schema","session","contract","verdict","entries","public_keys","head_hash"],"properties":{` +
	`"schema":{"const":"harness/ledger-bundle/v1"},"session":{"type":"string"},"contract":{"type":"string"},"verdict":{"type":["object","null"]},` +
	`"entries":{"type":"array","items":{"type":"object","required":["n","prev_sha256","type","body","sha256","signature"]}},` +
	`"public_keys":{"type":"array","items":{"type":"object"}},"head_hash":{"type":"string"}}}`

// tools lists them, sorted by name.
func tools() []tool {
	reads := annotations{ReadOnly: true, Idempotent: true}
	return []tool{
		{
			toolStatus, "Status of a contract's session",
			"Tell what a session has come to: running, done with its signed verdict, or interrupted because its process died. An interrupted session goes on when harness_run_contract is called with its name and contract.",
			json.RawMessage(inputSession), json.RawMessage(answerSchema), reads,
		},
		{
			toolExport, "Export a session's ledger",
			"Return the whole evidence chain of a session as one bundle: contract, verdict, signed entries and public keys. `harness ledger verify` checks it anywhere.",
			json.RawMessage(inputSession), json.RawMessage(bundleSchema), reads,
		},
		{
			toolVerdict, "Verdict of a session",
			"Return the signed verdict of a session from the ledger, after a check of the whole chain. It runs nothing and changes nothing.",
			json.RawMessage(inputSession), json.RawMessage(answerSchema), reads,
		},
		{
			toolRun, "Run a contract",
			"Run a contract: its work, then each of its checks, confined to the contract's directory, and return a signed verdict. Call it again with the same session to join one that runs, to read what it came to, or to go on with one that was interrupted; what is recorded is never run again.",
			json.RawMessage(inputRun), json.RawMessage(answerSchema),
			annotations{Destructive: true, OpenWorld: true},
		},
	}
}
