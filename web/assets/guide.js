/** A guide: its examples can be copied. */

import { enableCopying } from './dom.js'

enableCopying()
