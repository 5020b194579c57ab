import t from 'tap'
import { createRuleBasedTextAnalysis } from '../../../memory/text/text-analysis.ts'
import type { RuleBasedTextAnalyzer } from '../../../providers/text/text-analyzer-port.ts'

const text: RuleBasedTextAnalyzer = createRuleBasedTextAnalysis()

/** Six topics of four statements each. */
const TOPICS = [
  [
    'Gas on Base stays below 0.01 gwei on weekends.',
    'Batch transfers on Sundays since Base gas is cheapest then.',
    'Gas fees of Base rise when memecoins launch.',
    'Weekend gas on Base is a third of weekday gas.',
  ],
  [
    'Uniswap pools with low liquidity suffer from high slippage.',
    'Split large swaps over several pools to cut slippage.',
    'Slippage in thin liquidity pools can exceed five percent.',
    'Liquidity providers leave pools before volatile swaps.',
  ],
  [
    'Audit reports reveal reentrancy bugs in vault contracts.',
    'A reentrancy guard stops the contract from being drained.',
    'Most contract exploits come from missing access control in audits.',
    'Vault contracts need an audit before deposits open.',
  ],
  [
    'The NFT mint sold out in four minutes.',
    'Floor price of the NFT collection doubled after the mint.',
    'NFT collections with public mint attract bots.',
    'Rare traits raise the floor of an NFT collection.',
  ],
  [
    'Search engines throttle scrapers by address.',
    'Rotating addresses avoids throttling of a search scraper.',
    'The search index is refreshed nightly for scrapers.',
    'Scrapers should honour the robots file of search engines.',
  ],
  [
    'Bridge withdrawals to Ethereum take seven days.',
    'The bridge of Arbitrum has a seven day challenge for withdrawals.',
    'Fast bridges charge a fee to skip the withdrawal delay.',
    'A bridge hack froze withdrawals for a week.',
  ],
]
/** All texts, shuffled; `findTopic` returns the topic of one. */
const order = Array.from({ length: 24 }, (_, at) => (at * 7) % 24)
const mixed = order.map((at) => TOPICS[at % 6]?.[Math.floor(at / 6)] ?? '')
const topicOf = (at: number) => (order[at] ?? 0) % 6

const GOLDEN = [
  [114, -0.479463],
  [131, -0.479463],
  [133, 0.479463],
]

t.test('sentences do not end at abbreviations and decimals', async (t) => {
  t.strictSame(
    await text.sentences(
      'The price is 0.01 gwei, e.g. on Base. Dr. Smith agrees!\n\n- first item\n- second item\nthat goes on',
    ),
    [
      'The price is 0.01 gwei, e.g. on Base.',
      'Dr. Smith agrees!',
      '- first item',
      '- second item that goes on',
    ],
  )
  t.strictSame(await text.sentences('  \n '), [])
})

t.test('stems omit stop words, and keywords are the most frequent ones', async (t) => {
  t.strictSame(await text.stems('The prices of gas are falling'), ['price', 'gas', 'fall'])
  const found = await text.keywords(
    'Gas prices on Base are low. Base gas prices fell on Sunday; batch transfers on Sunday save gas.',
    3,
  )
  t.match(found[0], { text: 'gas prices', score: 1 })
  t.strictSame(found.map((one) => one.text).sort(), ['base', 'gas prices', 'sunday'])
})

t.test('vectors of the same words are similar in any order and form', async (t) => {
  const of = (one: string) => text.vector(one)
  const gas = await of('Gas prices on Base are low')
  t.equal(gas.length, 256)
  t.equal(text.similarity(gas, await of('low gas price, on base')), 1)
  t.ok(text.similarity(gas, await of('Base gas is priced lower')) > 0.5)
  t.ok(text.similarity(gas, await of('An NFT collection sold out')) < 0.2)
  t.ok(text.similarity(await of('reentrancy'), await of('reentrant')) > 0.2, 'by their trigrams')
  t.equal(text.similarity(gas, await of('the of and')), 0)
  // Vectors are stored: a change of the form would make strangers of them.
  t.strictSame(
    (await of('Slippage in thin pools')).flatMap((value, at) =>
      Math.abs(value) > 0.3 ? [[at, value]] : [],
    ),
    GOLDEN,
  )
})

t.test('known topics are found as clusters, in any order of the texts', async (t) => {
  const found = await text.clusters(mixed)
  t.equal(found.length, 6)
  for (const { members, centre } of found) {
    t.equal(members.length, 4)
    t.equal(new Set(members.map(topicOf)).size, 1)
    t.ok(members.includes(centre))
  }
  const ofGas = found.find(({ members }) => topicOf(members[0] ?? 0) === 0)
  t.ok(ofGas?.keywords.includes('gas'))
  t.strictSame(await text.clusters(mixed), found, 'the same again')
  const few = await text.clusters(mixed, { maxClusters: 3 })
  t.equal(few.length, 3)
  t.equal(few.flatMap(({ members }) => members).length, 24)
  t.equal((await text.clusters(mixed, { threshold: 0.9 })).length, 24)
  t.strictSame(await text.clusters([]), [])
})

t.test('a summary states common statements once, with their sources', async (t) => {
  const texts = TOPICS.map((topic) => topic.join(' '))
  const all = await text.summary(texts, { sentences: 4 })
  t.equal(all.length, 4)
  t.equal(Math.max(...all.map(({ score }) => score)), 1)
  for (const one of all) t.equal(one.text, TOPICS[one.source]?.[one.index])
  const asked = await text.summary(texts, {
    sentences: 2,
    query: 'how long do bridge withdrawals take',
  })
  t.strictSame(
    asked.map(({ source }) => source),
    [5, 5],
  )
  const [same] = TOPICS[5] ?? []
  const twice = await text.summary([`${same} ${same} ${same}`], { sentences: 3 })
  t.strictSame(twice, [{ text: same, source: 0, index: 0, score: 1 }])
  t.strictSame(await text.summary([''], { sentences: 3 }), [])
})

t.test('negations and opposites reverse a stance, and two of them cancel out', async (t) => {
  const thesis = 'Base gas fees will fall'
  const says = async (said: string, about = thesis) => {
    const { value, by } = await text.stance(said, about)
    return [Math.sign(value), by]
  }
  t.strictSame(await says('Base gas fees will keep falling through December.'), [1, 'agreement'])
  t.strictSame(await says('Base gas fees will rise sharply.'), [-1, 'antonym'])
  t.strictSame(await says('Base gas fees will not fall.'), [-1, 'negation'])
  t.strictSame(await says("I don't think Base gas fees will fall."), [-1, 'negation'])
  t.strictSame(await says('It is false that Base gas fees will not fall.'), [1, 'agreement'])
  t.strictSame(await says('Base gas fees will not rise.'), [1, 'agreement'])
  t.strictSame(await says('There is no doubt Base gas fees will fall.'), [1, 'agreement'])
  t.strictSame(await says('While SOL does not move, Base gas fees fall.'), [1, 'agreement'])
  t.strictSame(await says('Base gas fees are measured in gwei.'), [0, 'nothing'])
  t.strictSame(await says('Bananas are yellow.'), [0, 'nothing'])
  const safe = 'Aerodrome is safe to use'
  t.strictSame(await says('Aerodrome is safe: audited and never exploited.', safe), [
    1,
    'agreement',
  ])
  t.strictSame(await says('Aerodrome was hacked, so it is risky.', safe), [-1, 'antonym'])
  t.strictSame(await says('Uniswap does not support Monad.', 'Uniswap supports Monad'), [
    -1,
    'negation',
  ])
  t.strictSame(await says('I love the Foo token, it is lovely', 'The Foo token is a disaster'), [
    -1,
    'sentiment',
  ])
  const mixedText = 'Bananas are yellow. Base gas fees will rise. The sky is blue.'
  t.match(await text.stance(mixedText, thesis), {
    value: -1,
    sentence: 'Base gas fees will rise.',
    otherNumbers: false,
  })
  t.match(
    await text.stance('A transfer costs 0.02 USD on Base.', 'A transfer costs 0.05 USD on Base'),
    {
      value: 0,
      otherNumbers: true,
    },
  )
})

t.test('sentiment has a sign, which a negation reverses', async (t) => {
  t.equal((await text.sentiment('I love this great tool.')).label, 'positive')
  t.equal((await text.sentiment('It is awful and broken.')).label, 'negative')
  t.equal((await text.sentiment('It is not good at all.')).label, 'negative')
  t.strictSame(await text.sentiment('The block number is twelve.'), {
    score: -0.2,
    label: 'neutral',
  })
  t.strictSame(await text.sentiment(''), { score: 0, label: 'neutral' })
})

t.test('hostile text is processed in slices and does not block other work', async (t) => {
  const long = `${mixed.join(' ')}\n`.repeat(6)
  const hostile = [
    'http://'.repeat(2_000),
    "a'".repeat(6_000),
    '?!'.repeat(6_000),
    'a\n'.repeat(6_000),
    '漢字'.repeat(6_000),
    '__proto__ constructor toString '.repeat(400),
    long,
  ]
  let turns = 0
  let reading = true
  const count = () => {
    turns += 1
    if (reading) setImmediate(count)
  }
  count()
  for (const one of hostile) {
    await text.keywords(one, 5)
    await text.vector(one)
    await text.stance(one, one.slice(0, 200))
  }
  turns = 0
  await text.summary([long, long], { sentences: 5, query: 'gas' })
  t.ok(turns > 15, `the loop went round ${turns} times`)
  turns = 0
  await text.clusters(Array.from({ length: 120 }, (_, at) => mixed[at % 24] ?? ''))
  t.ok(turns > 30, `the loop went round ${turns} times`)
  reading = false
})
