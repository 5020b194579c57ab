import { loadCliClientEnvironment } from '../../config.ts'
import { CliUsageError, CLI_JSON_OPTION, type CliArguments, type CliVerb } from '../cli-verb.ts'
import { shouldPrintJson, printTableOrJsonLines } from '../cli-output.ts'
import {
  parseListOption,
  parseAmountOption,
  readRequiredOption,
  withoutNulls,
} from './cli-verb-with-subcommands.ts'
import { rowsOfAnswer } from './rows-of-station-reply.ts'
import { createCliStationClient } from './cli-station-client.ts'

/** `gas tools`, and `gas tools import`. */
export const toolsCliVerb: CliVerb = {
  forms: [
    '[--category C]',
    'review [--json]',
    'review <slug> (--accept | --refuse REASON)',
    'import (--openapi URL [--base URL] | --mcp URL) --price USDC [--include A,B] [--prefix P] [--category C] [--header NAME] [--accepts-promo]',
  ],
  about:
    'import sells the operations of an OpenAPI document, or the tools of an MCP server, to other agents. Its origin shows the token of the agent, or OPERATOR_TOKEN is that of the station. With --header the credential of the service is read from UPSTREAM_CREDENTIAL. review works on the database of the settings: the operator gives or refuses the mark `verified`.',
  options: {
    category: { value: 'C', description: 'the tools of one category only; import: their category' },
    openapi: { value: 'URL', description: 'import: an OpenAPI 3 document in JSON' },
    base: { value: 'URL', description: 'import: where its operations are called' },
    mcp: { value: 'URL', description: 'import: an MCP server over streamable HTTP' },
    price: { value: 'USDC', description: 'import: the price of a call' },
    include: { value: 'A,B', description: 'import: operation ids, METHOD /path, or tools' },
    prefix: { value: 'P', description: 'import: how the slugs begin' },
    header: { value: 'NAME', description: 'import: the header for the credential of the service' },
    'accepts-promo': { description: 'import: promotional credits buy the tools' },
    accept: { description: 'review: gives the mark' },
    refuse: { value: 'REASON', description: 'review: refuses it; the builder reads the reason' },
    ...CLI_JSON_OPTION,
  },
  examples: [
    'gas tools import --openapi https://api.example/openapi.json --price 0.01',
    'gas tools import --mcp https://mcp.example/mcp --price 0.01 --include search',
  ],
  async run(given) {
    const { words, text, has } = given
    const forPrograms = shouldPrintJson(has('json'))
    if (words.length === 1 && words[0] === 'import') {
      const rows = await importTools(given)
      printTableOrJsonLines(rows, ['slug', 'operation', 'status', 'imported'], forPrograms)
      return 0
    }
    const [what, slug, ...more] = words
    if (what === 'review' && more.length === 0) {
      const { listToolsAwaitingVerification, decideToolVerification } =
        await import('../operator/cli-review-community-tools.ts')
      const reason = text('refuse')
      if (slug === undefined) return listToolsAwaitingVerification(has('json'))
      if (has('accept') === (reason !== null)) throw new CliUsageError('')
      return decideToolVerification(slug, reason)
    }
    if (words.length > 0) throw new CliUsageError('')
    const category = text('category')
    const query = category === null ? '' : `?category=${encodeURIComponent(category)}`
    const answer = await createCliStationClient().request('GET', `/api/tools${query}`)
    printTableOrJsonLines(
      rowsOfAnswer(answer, 'tools'),
      ['slug', 'category', 'price_usdc', 'description'],
      forPrograms,
    )
    return 0
  },
}

async function importTools(given: CliArguments) {
  const { text, has } = given
  const { operatorToken, upstreamCredential } = loadCliClientEnvironment()
  const [include, header] = [text('include'), text('header')]
  if ((header === null) !== (upstreamCredential === null))
    throw new CliUsageError('--header and UPSTREAM_CREDENTIAL belong together')
  const answer = await createCliStationClient().write('POST', '/api/tools/import', {
    body: withoutNulls({
      openapi_url: text('openapi'),
      base_url: text('base'),
      mcp_url: text('mcp'),
      price_per_call_usdc: parseAmountOption(readRequiredOption(given, 'price'), '--price'),
      include: include === null ? null : parseListOption(include),
      prefix: text('prefix'),
      category: text('category'),
      upstream_header: header,
      upstream_value: upstreamCredential?.reveal() ?? null,
      accepts_promo: has('accepts-promo') ? true : null,
    }),
    ...(operatorToken === null ? {} : { headers: { 'x-operator-token': operatorToken.reveal() } }),
  })
  return rowsOfAnswer(answer, 'tools')
}
