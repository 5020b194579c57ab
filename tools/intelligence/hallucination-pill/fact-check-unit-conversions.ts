import { calculateExpression } from '../../../providers/text/calculator.ts'
import {
  exactFinding,
  approximateFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
} from './fact-claim-normalizer-and-finding-types.ts'
import {
  matchesQuantityExactly,
  NUMBER_PATTERN,
  numberTextToExactExpression,
  parseClaimedQuantity,
} from './claimed-quantity.ts'

/** Checks conversions between units. */

const SOURCE = 'definition of units'

/**
 * Dimension, factor to its first unit, names. All factors are exact definitions; a kilobyte, either 1,000 or
 * 1,024 bytes, is left out.
 */
const TABLE = `
length 1 m metre metres meter meters
length 1000 km kilometre kilometres kilometer kilometers
length 1/100 cm centimetre centimetres centimeter centimeters
length 1/1000 mm millimetre millimetres millimeter millimeters
length 1609344/1000 mile miles mi
length 1852 nautical-mile nautical-miles
length 3048/10000 foot feet ft
length 254/10000 inch inches
length 9144/10000 yard yards
mass 1 kg kilogram kilograms kilo kilos
mass 1/1000 g gram grams
mass 1000 tonne tonnes
mass 45359237/100000000 pound pounds lb lbs
mass 28349523125/1000000000000 ounce ounces oz
time 1 second seconds s
time 1/1000 millisecond milliseconds ms
time 60 minute minutes
time 3600 hour hours
time 86400 day days
time 604800 week weeks
volume 1 litre litres liter liters l
volume 1/1000 ml millilitre millilitres milliliter milliliters
volume 3785411784/1000000000 gallon gallons us-gallon us-gallons
data 1 bit bits
data 8 byte bytes
data 8192 kib kibibyte kibibytes
data 8388608 mib mebibyte mebibytes
data 8589934592 gib gibibyte gibibytes
ether 1 wei
ether 10^9 gwei
ether 10^18 eth ether ethers
bitcoin 1 satoshi satoshis sat sats
bitcoin 10^8 btc bitcoin bitcoins
solana 1 lamport lamports
solana 10^9 sol
usdc 1 micro-usdc usdc-base-unit usdc-base-units
usdc 10^6 usdc
share 1 basis-point basis-points bps
share 100 percent %
share 10000 whole
count 1 item items
count 12 dozen
angle 1 degree degrees
`

interface Unit {
  readonly dimension: string
  readonly factor: string
}
const UNITS: ReadonlyMap<string, Unit> = new Map(
  TABLE.trim()
    .split('\n')
    .flatMap((line) => {
      const [dimension = '', factor = '', ...names] = line.split(' ')
      return names.map((name) => [name.replaceAll('-', ' '), { dimension, factor }] as const)
    }),
)
const unitOf = (text: string): Unit | undefined =>
  UNITS.get(text.toLowerCase().replaceAll('-', ' ').trim())

const EQUAL = new RegExp(
  `^(?:(${NUMBER_PATTERN}|one|an?) )([a-z -]+?) (?:is equal to|is|are|equals|equal|=|has|contains|makes?|corresponds? to) (.+)$`,
  'i',
)
const INSIDE = new RegExp(`^there are (.+) in (?:(${NUMBER_PATTERN}|one|an?) )([a-z -]+)$`, 'i')
const DEGREES =
  /^(-?[\d.]+) ?(?:degrees? |°)?(c|f|k|celsius|fahrenheit|kelvin) (?:is|equals|=) (-?[\d.]+) ?(?:degrees? |°)?(c|f|k|celsius|fahrenheit|kelvin)$/i

/** Checks conversions between units with exact definitions. */
export const factCheckUnitConversions: FactClaimCheckFunction = (claim) => {
  const warm = DEGREES.exec(claim)
  if (warm !== null) return degrees(warm.slice(1))
  const [, one = '', from = '', claimed = ''] = EQUAL.exec(claim) ?? []
  if (from !== '') return converted(one, from, claimed)
  const [, inside = '', count = '', whole = ''] = INSIDE.exec(claim) ?? []
  return whole === '' ? null : converted(count, whole, inside)
}

function converted(count: string, from: string, claimed: string): FactCheckFinding | null {
  const quantity = parseClaimedQuantity(claimed)
  const [one, other] = [unitOf(from), unitOf(quantity?.unit ?? '')]
  const number = /^(?:one|an?)$/i.test(count) ? '1' : numberTextToExactExpression(count)
  if (quantity === null || one === undefined || other === undefined || number === null) return null
  if (one.dimension !== other.dimension) return null
  const actual = `${number}*(${one.factor})/(${other.factor})`
  const fit = matchesQuantityExactly(quantity, actual)
  const value = calculateExpression(actual)
  if (fit === null || value === null) return null
  const observed = `${value} ${quantity.unit}`
  return (fit.exact ? exactFinding : approximateFinding)(
    fit.holds,
    observed,
    SOURCE,
    'Units by their definition.',
  )
}

/** Formulas to Celsius and back. */
const SCALES: Readonly<Record<string, readonly [to: string, from: string]>> = {
  c: ['(#)', '(#)'],
  f: ['((#)-32)*5/9', '(#)*9/5+32'],
  k: ['((#)-273.15)', '(#)+273.15'],
}

function degrees([
  value = '',
  from = '',
  claimed = '',
  to = '',
]: readonly string[]): FactCheckFinding | null {
  const [one, other] = [SCALES[from.charAt(0).toLowerCase()], SCALES[to.charAt(0).toLowerCase()]]
  const quantity = parseClaimedQuantity(claimed)
  if (one === undefined || other === undefined || quantity === null) return null
  const actual = other[1].replace('#', one[0].replace('#', value))
  const fit = matchesQuantityExactly(quantity, actual)
  const observed = calculateExpression(`0+${actual}`)
  if (fit === null || observed === null) return null
  return (fit.exact ? exactFinding : approximateFinding)(
    fit.holds,
    observed,
    SOURCE,
    'Temperature scales.',
  )
}
