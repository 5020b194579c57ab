/** The bundled facts, and the phrases that state them. */

export interface BundledFact {
  readonly subject: readonly string[]
  readonly relation: string
  /** Spellings of the right value; any other is wrong, unless the fact is open. */
  readonly values: readonly string[]
  /** Other values may be right as well. */
  readonly open: boolean
  readonly source: string
  readonly asOf: string
}

/**
 * Subject | relation (* where other values are right too) | value | source | as of. Slashes separate
 * spellings. Checked in 2026-11 against Ethereum's execution and consensus specs and EIP-6953 (forks),
 * EIP-2780 with EIP-8038 (a transfer still takes 21000 gas), the times of both halvings, IANA's ports and the
 * world-countries data set (capitals).
 */
const TABLE = `
bitcoin/btc | maximum supply | 21 million | bitcoin.org | 2026-11
bitcoin/btc | genesis date | 2009-01-03 | block 0 | 2009-01
bitcoin/btc | creator | satoshi nakamoto | bitcoin.org/bitcoin.pdf | 2008-10
bitcoin whitepaper/bitcoin white paper | publication date | 2008-10-31 | metzdowd.com archive | 2008-10
bitcoin/btc | consensus | proof of work/pow | bitcoin.org | 2026-11
bitcoin/btc | block time | 10 minutes | bitcoin.org | 2026-11
bitcoin/btc | block reward | 3.125 btc | block 840000 | 2024-04
bitcoin/btc | halving interval | 210000 blocks | bitcoin.org | 2026-11
bitcoin/btc | hash function | sha-256/sha256/double sha-256 | bitcoin.org | 2026-11
fourth bitcoin halving/fourth halving | date | 2024-04-20 | block 840000 | 2024-04
third bitcoin halving/third halving | date | 2020-05-11 | block 630000 | 2020-05
ethereum/eth | genesis date | 2015-07-30 | block 0 | 2015-07
ethereum/eth | consensus | proof of stake/pos | ethereum.org | 2026-11
ethereum/eth | slot time | 12 seconds | ethereum.org | 2026-11
ethereum/eth | creator* | vitalik buterin | ethereum.org | 2026-11
ethereum/eth | hash function | keccak-256/keccak256 | yellow paper | 2026-11
ethereum/eth | validator deposit | 32 eth | ethereum.org | 2026-11
ethereum merge/the merge/merge | date | 2022-09-15 | block 15537394 | 2022-09
london upgrade/london hard fork/eip-1559/london fork | date | 2021-08-05 | block 12965000 | 2021-08
dencun upgrade/dencun/eip-4844 | date | 2024-03-13 | ethereum.org | 2024-03
pectra upgrade/pectra/eip-7702 | date | 2025-05-07 | ethereum.org | 2025-05
solana/sol | creator* | anatoly yakovenko | solana.com | 2026-11
solana/sol | consensus* | proof of stake/pos | solana.com | 2026-11
cardano/ada | creator* | charles hoskinson | cardano.org | 2026-11
dogecoin/doge | maximum supply | unlimited/none | dogecoin.com | 2026-11
litecoin/ltc | maximum supply | 84 million | litecoin.org | 2026-11
litecoin/ltc | creator | charlie lee | litecoin.org | 2026-11
usdc/usd coin | issuer | circle/circle internet financial | circle.com | 2026-11
usdt/tether | issuer | tether/tether limited/tether operations | tether.to | 2026-11
dai | issuer* | makerdao/maker/sky | sky.money | 2026-11
base | operator* | coinbase | base.org | 2026-11
base | kind | layer 2/l2/an ethereum layer 2/rollup | base.org | 2026-11
arbitrum/arbitrum one | kind | layer 2/l2/an ethereum layer 2/optimistic rollup/rollup | arbitrum.io | 2026-11
optimism/op mainnet | kind | layer 2/l2/an ethereum layer 2/optimistic rollup/rollup | optimism.io | 2026-11
erc-20/erc20 | kind | fungible token standard/token standard/standard for fungible tokens | eips.ethereum.org | 2026-11
erc-721/erc721 | kind | non-fungible token standard/nft standard/standard for nfts/standard for non-fungible tokens | eips.ethereum.org | 2026-11
evm/ethereum virtual machine | word size | 256 bits/32 bytes | yellow paper | 2026-11
ethereum address/evm address | length | 20 bytes/160 bits | yellow paper | 2026-11
simple eth transfer/eth transfer/plain eth transfer | gas | 21000 gas/21000 | yellow paper | 2026-11
https | port | 443 | iana.org | 2026-11
http | port | 80 | iana.org | 2026-11
ssh | port | 22 | iana.org | 2026-11
dns | port | 53 | iana.org | 2026-11
postgresql/postgres | port | 5432 | iana.org | 2026-11
speed of light | value | 299792458 m/s/299792458 metres per second/299792458 meters per second | bipm.org | 2019-05
france | capital | paris | un.org | 2026-11
germany | capital | berlin | un.org | 2026-11
italy | capital | rome | un.org | 2026-11
spain | capital | madrid | un.org | 2026-11
portugal | capital | lisbon | un.org | 2026-11
united kingdom/uk | capital | london | un.org | 2026-11
united states/usa | capital | washington/washington dc/washington d c | un.org | 2026-11
canada | capital | ottawa | un.org | 2026-11
australia | capital | canberra | un.org | 2026-11
japan | capital | tokyo | un.org | 2026-11
china | capital | beijing | un.org | 2026-11
india | capital | new delhi | un.org | 2026-11
brazil | capital | brasilia | un.org | 2026-11
turkey/türkiye | capital | ankara | un.org | 2026-11
switzerland | capital | bern | admin.ch | 2026-11
austria | capital | vienna | un.org | 2026-11
`

const list = (text = ''): string[] =>
  text
    .trim()
    .split('/')
    .map((one) => one.trim())
/** A slash in a unit does not separate spellings. */
const RATE = /(\d+) m\/s/g

export const BUNDLED_FACTS: readonly BundledFact[] = TABLE.trim()
  .split('\n')
  .map((line) => {
    const [subject, relation = '', value = '', source = '', asOf = ''] = line.split(' | ')
    return {
      subject: list(subject),
      relation: relation.trim().replace('*', ''),
      values: list(value.replace(RATE, '$1 m per s')).map((one) => one.replace(' per ', '/')),
      open: relation.trim().endsWith('*'),
      source: source.trim(),
      asOf: asOf.trim(),
    }
  })

/** Returns `the x of a is b` and `a's x is b`. */
const of = (noun: string): string[] => [
  `${noun} of @ is (?:currently |about )?#`,
  `@(?:'s)? ${noun} is (?:currently |about )?#`,
]

/** Phrases of a relation: `@` is the subject, `#` the value, `##` a number. */
export const FACT_PHRASES: Readonly<Record<string, readonly string[]>> = {
  'maximum supply': [
    '(?:max(?:imum)?|total) supply of @ is (?:capped at |limited to )?#',
    "@(?:'s)? (?:has a )?(?:max(?:imum)?|total) supply (?:of|is)(?: capped at)? #",
    '@ is (?:capped at|limited to) #(?: coins| btc| bitcoins| ltc)?',
    "@'s supply is (?:capped at|limited to) #(?: coins| btc| bitcoins)?",
    'there will (?:only )?(?:ever )?be (?:only )?## @s?',
  ],
  'genesis date': [
    '@(?: mainnet| network)? (?:was launched|launched|went live|started|was started) (?:on|in) #',
    'genesis block of @ was (?:mined|created) (?:on|in) #',
    "@(?:'s)? genesis block was (?:mined|created) (?:on|in) #",
  ],
  'publication date': ['@ was (?:published|released) (?:on|in) #'],
  date: [
    '@ (?:happened|took place|occurred|went live|was activated|activated) (?:on|in) #',
    '@ was (?:on|in) #',
  ],
  creator: [
    '@ was (?:created|founded|invented|co-founded|started) by #',
    '# (?:created|founded|invented|co-founded) @',
    '# is (?:the |a )?(?:creator|founder|inventor|co-founder) of @',
    '(?:creator|founder|inventor) of @ is #',
  ],
  consensus: [
    '@ (?:uses|runs on|is secured by|relies on)(?: a)? #(?: consensus)?',
    '@ is an? # (?:blockchain|network|chain)',
    ...of('consensus(?: mechanism)?'),
  ],
  'block time': [
    ...of('block time'),
    '@ has a block time of (?:about )?#',
    '@ (?:produces|mines) a block (?:about )?every #',
  ],
  'slot time': [...of('(?:slot|block) time'), '@ has a (?:slot|block) time of #'],
  'block reward': of('(?:current )?block (?:reward|subsidy)'),
  'halving interval': [
    '@ halves (?:its (?:block )?reward )?every #',
    '@ halvings? (?:happens?|occurs?) every #',
  ],
  'hash function': [
    '@ uses # (?:for|as) (?:its )?(?:hashing|hash function|mining)',
    ...of('hash function'),
  ],
  'validator deposit': [
    '(?:running )?an? @ validator (?:needs|requires|deposits|stakes) #',
    '# (?:are|is) (?:needed|required) to run an? @ validator',
  ],
  issuer: ['@ is issued by #', '# issues @', ...of('issuer')],
  operator: [
    '@ was (?:built|created|launched|incubated) by #',
    '@ is (?:operated|run) by #',
    '# (?:launched|built) @',
  ],
  kind: ['@ is (?:an? )?#(?: on ethereum| of ethereum)?'],
  'word size': [
    'word size of @ is #',
    "@(?:'s)? (?:has a )?word size (?:of|is) #",
    '@ words are # (?:long|wide)',
  ],
  length: ['an? @ (?:is|has) #(?: long)?', '@es are # long'],
  gas: ['an? @ (?:costs|uses|needs|takes) #', 'gas (?:cost|limit) of an? @ is #'],
  port: [
    '(?:default )?port of @ is #',
    '@ uses (?:tcp )?port #(?: by default)?',
    "@(?:'s)? default port is #",
    '@ (?:runs|listens) on port #',
  ],
  value: ['@(?: in (?:a )?vacuum)? is #'],
  capital: [
    'capital(?: city)? of @ is #',
    "@'s capital(?: city)? is #",
    '# is the capital(?: city)? of @',
  ],
}
