//! A method by name, or the one that a planner chooses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Durability, Method, Operation, ParseError};

/// The word of a plan in the place of a mechanism.
const PLANNED: &str = "planned";

/// What a planner is asked for: the fastest method of an operation with this durability. Its text is
/// `OPERATION/planned[,DURABILITY]`, as in `update/planned,fsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedChoice {
    /// The operation.
    pub operation: Operation,
    /// The durability that the method must provide.
    pub durability: Durability,
}

impl PlannedChoice {
    /// The durabilities that a plan of an operation may have; operations that only read have none.
    #[must_use]
    pub fn durabilities(operation: Operation) -> &'static [Durability] {
        match operation {
            Operation::Read | Operation::Compare | Operation::Scan => &[Durability::None],
            Operation::Write | Operation::Copy => &[Durability::None, Durability::Fsync],
            Operation::Update => &[Durability::None, Durability::Fsync, Durability::WriteThrough],
        }
    }

    fn promises(self) -> impl Iterator<Item = Durability> + use<> {
        let all = Self::durabilities(self.operation).iter().copied();
        all.filter(|&durability| durability != Durability::None)
    }

    fn refusal(self, option: &str) -> ParseError {
        let taken: Vec<&str> = self.promises().map(Durability::name).collect();
        ParseError::NotTaken {
            mechanism: format!("{}/{PLANNED}", self.operation),
            option: option.to_owned(),
            taken: if taken.is_empty() {
                "no option".to_owned()
            } else {
                taken.join(", ")
            },
        }
    }
}

impl fmt::Display for PlannedChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{PLANNED}", self.operation)?;
        match self.durability {
            Durability::None => Ok(()),
            durability => write!(f, ",{durability}"),
        }
    }
}

/// A method by name, or the one that a planner chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// This method.
    Method(Method),
    /// The one that a planner chooses.
    Plan(PlannedChoice),
}

impl Choice {
    /// The operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Method(method) => method.operation(),
            Self::Plan(plan) => plan.operation,
        }
    }

    /// What is on the device at the end.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self {
            Self::Method(method) => method.options().durability(),
            Self::Plan(plan) => plan.durability,
        }
    }

    /// The same with another durability.
    ///
    /// # Errors
    /// [`ParseError`] where the mechanism, or a plan of the operation, does not take it.
    pub fn with_durability(&self, durability: Durability) -> Result<Self, ParseError> {
        match self {
            Self::Method(method) => Ok(Self::Method(method.with(durability)?)),
            Self::Plan(plan) if PlannedChoice::durabilities(plan.operation).contains(&durability) => {
                Ok(Self::Plan(PlannedChoice { durability, ..*plan }))
            }
            Self::Plan(plan) => Err(plan.refusal(durability.name())),
        }
    }

    /// Whether work on the bytes is known to overlap moving them.
    #[must_use]
    pub fn is_overlapping(&self) -> bool {
        self.method().is_some_and(Method::is_overlapping)
    }

    /// How much there is to get wrong, as for [`Method::simplicity_rank`]; for a plan, slightly more than for the
    /// simplest mechanism.
    #[must_use]
    pub fn simplicity_rank(&self) -> u32 {
        match self {
            Self::Method(method) => method.simplicity_rank(),
            Self::Plan(plan) => 2 * 16 + u32::from(plan.durability != Durability::None),
        }
    }

    /// The method, if it is named.
    #[must_use]
    pub fn method(&self) -> Option<&Method> {
        match self {
            Self::Method(method) => Some(method),
            Self::Plan(_) => None,
        }
    }
}

impl From<Method> for Choice {
    fn from(method: Method) -> Self {
        Self::Method(method)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Method(method) => method.fmt(f),
            Self::Plan(plan) => plan.fmt(f),
        }
    }
}

impl FromStr for Choice {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parts = text.split(',');
        let head = parts
            .next()
            .and_then(|head| head.strip_suffix(PLANNED)?.strip_suffix('/'));
        let Some(operation) = head.and_then(Operation::named) else {
            return text.parse().map(Self::Method);
        };
        let mut plan = PlannedChoice {
            operation,
            durability: Durability::None,
        };
        for option in parts.filter(|option| !option.is_empty()) {
            let mut promised = plan.promises();
            let found = promised.find(|known| known.name() == option);
            plan.durability = found.ok_or_else(|| plan.refusal(option))?;
        }
        Ok(Self::Plan(plan))
    }
}

impl Serialize for PlannedChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PlannedChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.parse() {
            Ok(Choice::Plan(plan)) => Ok(plan),
            Ok(Choice::Method(_)) => Err(serde::de::Error::custom(format!("`{text}` is not a plan"))),
            Err(error) => Err(serde::de::Error::custom(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_told_from_a_method_and_prints_as_it_is_read() {
        for text in [
            "read/planned",
            "copy/planned,fsync",
            "compare/planned",
            "update/planned,write-through",
        ] {
            let choice: Choice = text.parse().unwrap();
            assert!(matches!(choice, Choice::Plan(_)), "{text}");
            assert_eq!(choice.to_string(), text);
            assert!(text.parse::<Method>().is_err());
        }
        let named: Choice = "update/sync,block=4K,fsync".parse().unwrap();
        assert_eq!(named.durability(), Durability::Fsync);
        assert!(named.method().is_some());
        let refused = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        let words = "update/planned does not take direct; it takes fsync, write-through";
        assert_eq!(refused("update/planned,direct"), words);
        let words = "read/planned does not take fsync; it takes no option";
        assert_eq!(refused("read/planned,fsync"), words);
        let plan = "write/planned".parse::<Choice>().unwrap();
        let durable = plan.with_durability(Durability::Fsync).unwrap();
        assert_eq!(durable.to_string(), "write/planned,fsync");
        assert!(plan.with_durability(Durability::WriteThrough).is_err());
    }
}
