import { READABLE_CHAIN_NAMES } from '../../../providers/chain-data/chain-data-port.ts'
import { PRICE_SOURCE_IDS_BY_SYMBOL } from '../../../providers/prices/price-source-ids-by-symbol.ts'
import { findRequestedCrew, type CrewNamedInGoal } from './crew-request-for-goal.ts'

/** What a goal names, in its own words. */
export interface ParsedGoal {
  readonly text: string
  /** The text without addresses of any kind, for word patterns. */
  readonly words: string
  /** The subject, without the requested actions. */
  readonly topic: string
  /** The requested actions, in order. */
  readonly clauses: readonly string[]
  /** Text in quotation marks or backticks, or after a colon; null without any. */
  readonly quoted: string | null
  readonly urls: readonly string[]
  readonly emails: readonly string[]
  readonly addresses: readonly string[]
  /** Signed transactions, not hashes. */
  readonly transactions: readonly string[]
  readonly agents: readonly string[]
  readonly symbols: readonly string[]
  readonly chain: string | null
  /** The requested crew; the rest of the goal is for other tools. */
  readonly crew: CrewNamedInGoal | null
}

const URL_IN_TEXT = /https?:\/\/[^\s"'<>`]{3,500}/g
const DOMAIN =
  /\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|ai|app|co|so|xyz|eu|de|uk|fr|info|gg|fi)\b(?:\/[^\s"'<>`,;]*)?/gi
const EMAIL = /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g
/** Longer than a hash. */
const MIN_SIGNED_TX_CHARS = 67
const TRANSACTION = /\b0x[0-9a-fA-F]{42,}\b/g
const ADDRESS = /\b0x[0-9a-fA-F]{40}\b/g
const UUID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi
const QUOTED = [/`([^`]{2,})`/, /"([^"]{2,})"/, /“([^”]{2,})”/, /(?:^|\s)'([^']{2,})'(?=$|[\s.,;])/]

const SAYING = /\b(?:saying|that says|with the (?:text|message))(?: that)?:?\s+(\S[^]*?)\.?$/i

/** Parses a goal by its words alone. */
export function parseGoal(text: string): ParsedGoal {
  const all = (pattern: RegExp, from = text) => [...new Set(from.match(pattern) ?? [])]
  const emails = all(EMAIL)
  const bare = text.replace(EMAIL, ' ')
  const written = all(URL_IN_TEXT, bare).map((url) => url.replace(/[.,;:!?)\]]+$/, ''))
  const rest = bare.replace(URL_IN_TEXT, ' ')
  const urls = [...written, ...all(DOMAIN, rest).map((domain) => `https://${domain}`)]
  const words = [DOMAIN, TRANSACTION, ADDRESS, UUID].reduce(
    (left, one) => left.replace(one, ' '),
    rest,
  )
  const [chain = null] =
    READABLE_CHAIN_NAMES.filter((name) =>
      new RegExp(`\\b(?:on|to|chain) ${name}\\b`, 'i').test(words),
    ) ?? []
  return {
    text,
    words,
    topic: findTopic(rest.replace(TRANSACTION, ' ').replace(UUID, ' ')),
    clauses: splitGoalClauses(text),
    quoted: findQuotedText(bare),
    urls: [...new Set(urls)],
    emails,
    addresses: all(ADDRESS),
    transactions: all(TRANSACTION).filter(({ length }) => length >= MIN_SIGNED_TX_CHARS),
    agents: all(UUID),
    symbols: findTokenSymbols(words),
    chain,
    crew: findRequestedCrew(text),
  }
}

function findQuotedText(text: string): string | null {
  for (const pattern of [...QUOTED, SAYING]) {
    const [, captured] = pattern.exec(text) ?? []
    if (captured !== undefined) return captured.trim()
  }
  const [, after] = /[^\d\s:]:\s+(\S[^]*)$/.exec(text) ?? []
  return after?.trim() ?? null
}

/** Names that are everyday words too; in lower case they mean the word. */
const AMBIGUOUS = new Set(
  'LINK NEAR DOT UNI POL ICP APT OP FIL VET SKY SAND FLOW MANA BAND GAS ONE S W AI TIA STX RUNE COMP BAL ENS APE ROSE MASK BLUR BLAST LEO GT HYPE MON TON VIRTUAL RENDER DASH RAY ORCA AR ZK BAT BONK DEGEN OCEAN TRUMP ATOM SEI GALA MINA ZIL GRT'.split(
    ' ',
  ),
)
/** Words after which a name in capitals is a token, known or not. */
const UNKNOWN =
  /\$([A-Za-z][A-Za-z0-9]{1,9})\b|\b(?:[Pp]rices?|[Qq]uotes?|[Ll]iquidity|[Vv]alue) (?:of|for) (?:the )?([A-Z][A-Z0-9]{1,9})\b|\b([A-Z][A-Z0-9]{1,9}) (?:price|token|coin)s?\b/g
const NO_TOKENS = new Set(
  'USD EUR GBP US UK EU API CSV JSON PDF HTML NFT ERC URL THE A AI GPU CPU PC TV'.split(' '),
)
/** Words near which an unknown name in capitals is a token too. */
const ON_CHAIN = /\b(?:tokens?|coins?|liquidity|whale flows?|dex|pools?|on.?chain)\b/i
/** Words near which the name of a coin means the coin. */
const MONEY =
  /\b(?:prices?|tokens?|coins?|crypto\w*|worth|quotes?|market|trad\w+|buy|sell|liquidity|usd)\b/i

/** Returns token symbols in a text: in capitals, after a dollar sign, or by common names. */
export function findTokenSymbols(text: string): string[] {
  const found = new Map<string, number>()
  const add = (symbol: string, at: number) => {
    if (!found.has(symbol)) found.set(symbol, at)
  }
  for (const { 0: word, index } of text.matchAll(/\b[A-Za-z0-9]{1,10}\b/g)) {
    const symbol = word.toUpperCase()
    const capital = word === symbol && symbol.length > 1
    const small = word === word.toLowerCase() && symbol.length > 2 && !AMBIGUOUS.has(symbol)
    if (PRICE_SOURCE_IDS_BY_SYMBOL.has(symbol) && (capital || small)) add(symbol, index)
  }
  for (const { 1: dollar, 2: before, 3: after, index } of text.matchAll(UNKNOWN)) {
    const symbol = (dollar ?? before ?? after ?? '').toUpperCase()
    if (!NO_TOKENS.has(symbol)) add(symbol, index)
  }
  for (const [symbol, { coingecko }] of PRICE_SOURCE_IDS_BY_SYMBOL) {
    const name = new RegExp(`\\b${coingecko.replaceAll('-', '[- ]')}\\b`, 'i').exec(text)
    if (name === null || found.has(symbol)) continue
    const plain = ['BTC', 'ETH', 'SOL'].includes(symbol)
    const isChain = READABLE_CHAIN_NAMES.some((chain) => chain === coingecko)
    if (isChain && /\b(?:on|chain)\s+$/i.test(text.slice(0, name.index))) continue
    const proper = /^[A-Z]/.test(name[0]) && name.index > 0
    if (plain || (MONEY.test(text) && (proper || !AMBIGUOUS.has(symbol)))) add(symbol, name.index)
  }
  if (found.size === 0 && ON_CHAIN.test(text)) {
    for (const { 0: symbol, index } of text.matchAll(/\b[A-Z][A-Z0-9]{2,9}\b/g)) {
      if (!NO_TOKENS.has(symbol)) add(symbol, index)
    }
  }
  return [...found]
    .sort(([, a], [, b]) => a - b)
    .map(([symbol]) => symbol)
    .slice(0, 10)
}

/** Polite openings and verbs, which are not part of the subject. */
const BEGINNINGS = [
  /^(?:please|kindly|can you|could you|would you|i(?:'d| would)? (?:want|need|like)(?: you)? to|help me(?: to)?|let'?s|my goal is to|go and|(?:every|each) \w+|daily|hourly|weekly)\b[\s,]*/i,
  /^(?:(?:do a |run a )?(?:web )?search|google|look|find|research|investigate|study|analy[sz]e|compare|report|write|draft|learn|tell|check|get|fetch|give|show|summari[sz]e|explain|predict|forecast|verify|fact.?check|see|read|scrape|crawl|extract|monitor|watch|track|ask|ping|message|remember|note|recall|find out|e-?mail|mail|send|notify|alert|warn)\b(?:\s+(?:the (?:web|internet|hive)|through|my (?:notes|memories|vault)|(?:all |the |an |other |every |another )*agents?(?: in the swarm)?|online|it|out|up|me|us|into|down|everything|anything|an? (?:report|summary|e-?mail|message)))*(?:\s+(?:for|about|on|of|to|whether|if|that|what))*[\s:,]*/i,
  /^(?:what (?:do|are) (?:people|other agents|agents|they) (?:say(?:ing)?|think(?:ing)?|feel(?:ing)?) (?:about|of)|what (?:do|did) i (?:know|remember|write|note|save)(?: down)?(?: about)?|what is|what are|who is|is it true(?: that)?|how likely (?:is it )?(?:that|is)|the (?:claim|statement)(?: that)?|saying)\b[\s:,]*/i,
]
const ACTION_VERBS =
  'e-?mail|mail|send|save|store|remember|write|summari[sz]e|tell|notify|post|publish|alert|ping|message|report|translate|share|put|draft|broadcast|give|let|warn|keep|add|list|compute|calculate'
const BETWEEN = '(?:[,;.]\\s*(?:and |then )*|\\s+(?:and |then )+)(?:please )?'
const NEXT = new RegExp(`${BETWEEN}(?=(?:${ACTION_VERBS})\\b)`, 'i')
const PLACE =
  /\s+(?:on (?:social media|reddit|twitter|the web|the internet|hacker ?news|bluesky|mastodon)|online|in (?:my|the) (?:vault|notes|hive|memory|memories)|every \w+|(?:hourly|daily|weekly)|right now|today)\s*$/i

const splitGoalClauses = (text: string): string[] =>
  text.split(NEXT).flatMap((clause) => (clause.trim() === '' ? [] : [clause.trim()]))

function findTopic(text: string): string {
  const whole = text.trim().replace(/\s+/g, ' ')
  let [topic = whole] = splitGoalClauses(whole)
  for (let before = ''; before !== topic;) {
    before = topic
    for (const pattern of BEGINNINGS) topic = topic.replace(pattern, '').trim()
    topic = topic
      .replace(/[\s.,;:!?]+$/, '')
      .replace(PLACE, '')
      .replace(/\s+(?:from|at|of|on|to|for|in)$/i, '')
  }
  return topic.length < 3 ? whole : topic
}
