import type { CliVerbEntry, CliVerbTable } from './cli-verb.ts'

/** All verbs of `gas`: one line and one file each. A file is loaded when its verb is used. */

const entryOf =
  (group: CliVerbEntry['group']) =>
  (summary: string, load: CliVerbEntry['load']): CliVerbEntry => ({ group, summary, load })
const agent = entryOf('agent')
const operator = entryOf('operator')
const general = entryOf('general')

export const CLI_VERBS: CliVerbTable = {
  onboard: agent(
    'registers an agent',
    async () => (await import('./agent/cli-onboard-verb.ts')).onboardCliVerb,
  ),
  call: agent('calls a tool', async () => (await import('./agent/cli-call-verb.ts')).callCliVerb),
  tools: agent(
    'lists the catalogue; imports tools to sell',
    async () => (await import('./agent/cli-tools-verb.ts')).toolsCliVerb,
  ),
  task: agent(
    'starts, ends and shows tasks with a budget',
    async () => (await import('./agent/cli-task-verb.ts')).taskCliVerb,
  ),
  bounty: agent(
    'lists, posts and claims bounties',
    async () => (await import('./agent/cli-bounty-verb.ts')).bountyCliVerb,
  ),
  keys: agent(
    'lists, creates, rotates and revokes API keys',
    async () => (await import('./agent/cli-api-keys-verb.ts')).keysCliVerb,
  ),
  freeze: agent(
    'freezes the agent: no key of it spends or acts',
    async () => (await import('./agent/cli-freeze-verb.ts')).freezeCliVerb,
  ),
  unfreeze: agent(
    'lets a frozen agent go on',
    async () => (await import('./agent/cli-freeze-verb.ts')).unfreezeCliVerb,
  ),
  tail: agent(
    'prints events as they come',
    async () => (await import('./agent/cli-tail-events-verb.ts')).tailCliVerb,
  ),
  config: agent(
    'shows or sets the station and the key of these verbs',
    async () => (await import('./agent/cli-config-verb.ts')).configCliVerb,
  ),
  balance: agent(
    'shows the credits of the agent',
    async () => (await import('./agent/cli-balance-verb.ts')).balanceCliVerb,
  ),

  mcp: agent(
    'is an MCP server for desktop clients; installs itself in one',
    async () => (await import('./mcp/cli-mcp-verb.ts')).mcpCliVerb,
  ),

  serve: operator(
    'runs the station, like npm start',
    async () => (await import('./operator/cli-serve-verb.ts')).serveCliVerb,
  ),
  start: operator(
    'the same as serve',
    async () => (await import('./operator/cli-serve-verb.ts')).serveCliVerb,
  ),
  migrate: operator(
    'brings the schema of the database up to date',
    async () => (await import('./operator/cli-migrate-verb.ts')).migrateCliVerb,
  ),
  verify: operator(
    'recomputes every balance from the ledger and checks the invariants',
    async () => (await import('./operator/cli-verify-ledger-verb.ts')).verifyCliVerb,
  ),
  receipt: operator(
    'checks a receipt against the ledger',
    async () => (await import('./operator/cli-verify-receipt-verb.ts')).receiptCliVerb,
  ),
  attest: operator(
    'checks saved heads, proofs and receipts offline; changes the key that signs them',
    async () => (await import('./operator/cli-attest-verb.ts')).attestCliVerb,
  ),
  inspect: operator(
    'prints a link to the inspector that opens once',
    async () => (await import('./operator/cli-inspector-link-verb.ts')).inspectCliVerb,
  ),
  history: operator(
    'shows the past states of an actor, from the journal',
    async () => (await import('./operator/cli-actor-history-verb.ts')).historyCliVerb,
  ),
  archive: operator(
    'moves old months of the journal to files, which history reads; lists them',
    async () => (await import('./operator/cli-archive-journal-verb.ts')).archiveCliVerb,
  ),
  doctor: operator(
    'shows what the station can use on this machine, with these settings',
    async () => (await import('./operator/cli-doctor-verb.ts')).doctorCliVerb,
  ),
  drop: operator(
    'opens a radio drop: ten slots for two hours; lists the latest',
    async () => (await import('./operator/cli-credit-drop-verb.ts')).dropCliVerb,
  ),
  grant: operator(
    'gives an agent promotional credits; the same --id gives them once',
    async () => (await import('./operator/cli-grant-credits-verb.ts')).grantCliVerb,
  ),
  dlq: operator(
    'lists permanent failures; makes one due again',
    async () => (await import('./operator/cli-dlq-verb.ts')).dlqCliVerb,
  ),
  settlement: operator(
    'lists payments with an unknown outcome; sets that of one on Solana',
    async () => (await import('./operator/cli-settlement-verb.ts')).settlementCliVerb,
  ),
  'rotate-master-key': operator(
    'seals all secrets under the new master key',
    async () => (await import('./operator/cli-rotate-master-key-verb.ts')).rotateMasterKeyCliVerb,
  ),

  help: general(
    'shows the verbs, or one of them',
    async () => (await import('./general/cli-help-verb.ts')).helpCliVerb,
  ),
  completion: general(
    'prints a completion script for a shell',
    async () => (await import('./general/cli-shell-completion-verb.ts')).completionCliVerb,
  ),
  version: general(
    'shows the version',
    async () => (await import('./general/cli-version-verb.ts')).versionCliVerb,
  ),
}
