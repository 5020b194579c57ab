import { AGENT_STOP_ERROR_CODES } from './agent-stop-error-codes.ts'
import type { AgentBlueprint } from './agent-blueprint.ts'

/** Generates the JavaScript program of a new agent. */

/** Globals of the generated program; lint rules forbid them in this one. */
const GENERATED_GLOBALS = { process: 'process', console: 'console', fetch: 'fetch' }

/** Generates `agent.cjs`, which executes the planned steps of a task like `agent.py`. */
export function generateJavascriptAgentSource({
  name,
  framework,
  baseUrl,
}: AgentBlueprint): string {
  const { process, console, fetch } = GENERATED_GLOBALS
  return String.raw`// ${name}: needs Node 20 and GAS_API_KEY in its environment.
//
// Does the task it was made for (plan.json), or another one: node agent.cjs "the task in words".
// A tool that acts on others (mail, messages, publications, forms, transactions) runs only after a
// person has confirmed the exact call, or with --allow TOOL. Fields that the task leaves open are asked
// for at the terminal, or given with --set TOOL.FIELD=VALUE.
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
const { createInterface } = require('node:readline/promises')
const { parseArgs } = require('node:util')

const own = (file) => readFileSync(join(__dirname, file), 'utf8')
const BASE_URL = (${process}.env.GAS_URL || ${JSON.stringify(baseUrl)}).replace(/\/+$/, '')
const SYSTEM_PROMPT = own('system-prompt.md')
const TOOLS = new Map(JSON.parse(own('tools.json')).map((tool) => [tool.name, tool]))
// The one route of a plan without effects on others.
const CREW = '/api/agent/crew'
// After one of these the work ends: a limit is not to be worked around.
const ENDING_CODES = ${JSON.stringify(AGENT_STOP_ERROR_CODES)}
const OPEN = /<[^<>]+>/
const EARLIER = /<what steps? ([0-9, and]+) answered>/g
const numbersIn = (text) => (text.match(/[0-9]+/g) ?? []).map(Number)

/** A call that was not made, or that the station refused; code says why. */
class Refused extends Error {
  constructor(name, code, detail) {
    super(name + ': ' + code + ', ' + detail)
    this.code = code
  }
}

/** One request; throws Refused with the code of the refusal. */
async function post(path, fields, name) {
  const headers = { 'content-type': 'application/json', 'x-api-key': ${process}.env.GAS_API_KEY ?? '' }
  const request = { method: 'POST', headers, body: JSON.stringify(fields) }
  const response = await ${fetch}(BASE_URL + path, request).catch((error) => {
    throw new Refused(name, 'unreachable', error.message)
  })
  const body = await response.json().catch(() => ({}))
  if (response.ok) return body
  throw new Refused(name, String(body.code ?? response.status), body.detail ?? response.statusText)
}

/** Calls one tool without a confirmation; throws Refused. */
const callTool = (tool, fields) => post('/api/refuel', { ...fields, tool }, tool)

/** Whether a call reaches others. What is not known is taken to. */
const actsOnOthers = (name) => name !== CREW && (TOOLS.get(name)?.acts_on_others ?? true)

/** What the person at the terminal says; nothing where there is no terminal. */
async function said(question) {
  if (!${process}.stdin.isTTY) return ''
  const terminal = createInterface({ input: ${process}.stdin, output: ${process}.stdout })
  try {
    return (await terminal.question(question)).trim()
  } finally {
    terminal.close()
  }
}

/** Asks the person at the terminal about one exact call. Without a terminal the answer is no. */
async function ask(name, fields) {
  const call = JSON.stringify(fields, null, 2)
  const question = name + ' acts on others. It would be called with:\n' + call + '\nRun it? [y/N] '
  return ['y', 'yes'].includes((await said(question)).toLowerCase())
}

/** Calls a tool or a route; one that acts on others only when confirm says yes to this call. */
async function use(name, fields, confirm = ask) {
  if (actsOnOthers(name) && !(await confirm(name, fields))) {
    const detail = 'it acts on others and was not confirmed; allow it with --allow ' + name
    throw new Refused(name, 'not_confirmed', detail)
  }
  return name.startsWith('/') ? post(name, fields, name) : callTool(name, fields)
}
${framework === 'fetch' ? '' : ACTIONS_SNIPPET}
/** What a later step is given of an answer. */
function textOf({ _meta, ...answer }) {
  const field = ['text', 'answer', 'body_text'].find((one) => typeof answer[one] === 'string')
  return field === undefined ? JSON.stringify(answer) : answer[field]
}

/** The value with what earlier steps answered, and whether it still leaves something open. */
function filled(value, answers) {
  if (Array.isArray(value)) {
    const parts = value.map((one) => filled(one, answers))
    return { value: parts.map((one) => one.value), open: parts.some((one) => one.open) }
  }
  if (typeof value === 'object' && value !== null) {
    const parts = Object.entries(value).map(([key, one]) => [key, filled(one, answers)])
    const fields = Object.fromEntries(parts.map(([key, one]) => [key, one.value]))
    return { value: fields, open: parts.some(([, one]) => one.open) }
  }
  if (typeof value !== 'string') return { value, open: false }
  const steps = [...value.matchAll(EARLIER)].flatMap(([, told]) => numbersIn(told))
  const open = OPEN.test(value.replace(EARLIER, '')) || steps.some((step) => !answers.has(step))
  if (open) return { value, open }
  const put = (_, told) => numbersIn(told).map((step) => answers.get(step)).join('\n\n')
  return { value: value.replace(EARLIER, put), open }
}

const schemaOf = (name, field) => TOOLS.get(name)?.parameters.properties?.[field] ?? {}

/** A value from the command line or the terminal, by the schema of its field. */
function givenAs(name, field, text) {
  if (schemaOf(name, field).type === 'string') return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** The fields of one call; throws Refused if an open field is not given. */
async function complete(name, example, answers, given) {
  const fields = {}
  for (const [field, wanted] of Object.entries(example)) {
    if (field === 'tool' || field in given) continue
    let { value, open } = filled(wanted, answers)
    if (open) {
      const shown = JSON.stringify(value)
      const text = await said(name + ', ' + field + ' ' + shown + ': ')
      const hint = field + ' is open: ' + shown + '; give it with --set ' + name + '.' + field + '=VALUE'
      if (text === '') throw new Refused(name, 'open_field', hint)
      value = givenAs(name, field, text)
    }
    const { maxLength } = schemaOf(name, field)
    const long = typeof value === 'string' && maxLength !== undefined
    fields[field] = long ? Array.from(value).slice(0, maxLength).join('') : value
  }
  return { ...fields, ...given }
}

/** Does the steps in their order and prints what they answer; false where one was not done. */
async function doTask(steps, given, confirm = ask) {
  const answers = new Map()
  let done = true
  for (const { step, tool, endpoint, example } of steps) {
    if (example === null) continue
    const name = tool ?? new URL(endpoint).pathname
    try {
      const answer = await use(name, await complete(name, example, answers, given[name] ?? {}), confirm)
      answers.set(step, textOf(answer))
      ${console}.log('step ' + step + ', ' + name + ': ' + JSON.stringify(answer, null, 2))
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      ${console}.error('step ' + step + ' was not done: ' + error.message)
      done = false
      if (ENDING_CODES.includes(error.code)) break
    }
  }
  return done
}

async function main() {
  const text = { type: 'string', multiple: true, default: [] }
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { allow: text, set: text } })
  const given = {}
  for (const one of values.set) {
    const [, name, field, value] = /^([^=]+)\.([^.=]+)=([^]*)$/.exec(one) ?? []
    if (name === undefined) throw new Error('--set takes TOOL.FIELD=VALUE, not ' + one)
    given[name] = { ...given[name], [field]: givenAs(name, field, value) }
  }
  const [task] = positionals
  const plan =
    task === undefined ? JSON.parse(own('plan.json')) : await post('/api/agent/plan', { task }, 'plan')
  if (plan.note !== null) ${console}.error(plan.note)
  const confirm = async (name, fields) => values.allow.includes(name) || (await ask(name, fields))
  if (!(await doTask(plan.steps, given, confirm))) ${process}.exitCode = 1
}

module.exports = { ...module.exports, SYSTEM_PROMPT, TOOLS, callTool, use, doTask }
if (require.main === module) {
  main().catch((error) => {
    ${console}.error(error.message)
    ${process}.exitCode = 1
  })
}
`
}

/** Eliza and Virtuals take actions: a name, a description, a schema and a handler. */
const ACTIONS_SNIPPET = `
/** The tools as actions for the runtime of the framework; one that acts on others asks first. */
module.exports.actions = [...TOOLS.values()].map(({ name, description, parameters }) => ({
  name: name.toUpperCase(),
  description,
  parameters,
  handler: (fields) => use(name, fields),
}))
`
