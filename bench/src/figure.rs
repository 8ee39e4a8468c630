//! One line of the table.

/// A measured figure with its target.
pub struct Figure {
    /// Group of the benchmark it belongs to.
    pub group: &'static str,
    /// What was measured, for people.
    pub what: String,
    /// The column of a table with several figures in a line, else empty.
    pub column: &'static str,
    /// The native figure, if there is one.
    pub native: Option<f64>,
    /// Culvert's figure.
    pub culvert: f64,
    /// Unit of both.
    pub unit: &'static str,
    /// What the target speaks of: a difference, a ratio or the figure itself.
    pub judged: Judged,
    /// The same with other systems: name and figure.
    pub beside: Vec<(String, f64)>,
    /// A remark.
    pub note: String,
    /// Quartiles of the ratios of the rounds, native by culvert.
    pub spread: Option<(f64, f64)>,
}

/// What the target is about.
pub enum Judged {
    /// Culvert minus native is at most this.
    Added(f64),
    /// Culvert minus native, for information.
    AddedStated,
    /// Culvert by native is at most this.
    Ratio(f64),
    /// Native by culvert is at least this: the part of the native speed.
    Speed(f64),
    /// The part of the native speed, without a target.
    SpeedStated,
    /// Culvert's figure is at most this.
    Figure(f64),
    /// Culvert's figure is below that of everyone in `beside`.
    Ahead,
    /// Shown for information.
    Stated,
}

impl Figure {
    /// A figure without company.
    pub fn new(
        group: &'static str,
        what: impl Into<String>,
        native: Option<f64>,
        culvert: f64,
        unit: &'static str,
        judged: Judged,
    ) -> Self {
        Self {
            group,
            what: what.into(),
            column: "",
            native,
            culvert,
            unit,
            judged,
            beside: Vec::new(),
            note: String::new(),
            spread: None,
        }
    }

    /// Puts it into a column.
    pub fn column(mut self, column: &'static str) -> Self {
        self.column = column;
        self
    }

    /// Adds a remark.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Adds other systems.
    pub fn beside(mut self, others: Vec<(String, f64)>) -> Self {
        self.beside = others;
        self
    }

    /// The number that is judged, as text: `+8.1 ns`, `1.3 times`.
    pub fn result(&self) -> String {
        let native = self.native.unwrap_or(0.0);
        match self.judged {
            Judged::Added(_) | Judged::AddedStated => {
                format!("{:+} {}", Rounded(self.culvert - native), self.unit)
            }
            Judged::Ratio(_) => format!("{} times", Rounded(self.culvert / native)),
            Judged::Speed(_) | Judged::SpeedStated => Rounded(native / self.culvert).to_string(),
            Judged::Figure(_) | Judged::Ahead => format!("{} {}", Rounded(self.culvert), self.unit),
            Judged::Stated => match self.native {
                Some(native) => format!("{} times", Rounded(self.culvert / native)),
                None => format!("{} {}", Rounded(self.culvert), self.unit),
            },
        }
    }

    /// The target as text.
    pub fn target(&self) -> String {
        match self.judged {
            Judged::Added(most) => format!("+{} {}", Rounded(most), self.unit),
            Judged::Ratio(most) => format!("{} times", Rounded(most)),
            Judged::Speed(least) => Rounded(least).to_string(),
            Judged::Figure(most) => format!("{} {}", Rounded(most), self.unit),
            Judged::Ahead => "ahead".to_owned(),
            Judged::Stated | Judged::SpeedStated | Judged::AddedStated => String::new(),
        }
    }

    /// Whether the target is met; `None` where there is none.
    pub fn passes(&self) -> Option<bool> {
        let native = self.native.unwrap_or(0.0);
        match self.judged {
            Judged::Added(most) => Some(self.culvert - native <= most),
            Judged::Ratio(most) => Some(self.culvert <= most * native),
            Judged::Speed(least) => Some(native >= least * self.culvert),
            Judged::Figure(most) => Some(self.culvert <= most),
            Judged::Ahead if self.beside.is_empty() => None,
            Judged::Ahead => Some(self.beside.iter().all(|(_, other)| self.culvert < *other)),
            Judged::Stated | Judged::SpeedStated | Judged::AddedStated => None,
        }
    }
}

/// Three digits that count.
pub struct Rounded(pub f64);

impl std::fmt::Display for Rounded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = match self.0.abs() {
            size if size >= 100.0 => 0,
            size if size >= 10.0 => 1,
            _ => 2,
        };
        if f.sign_plus() {
            write!(f, "{:+.digits$}", self.0)
        } else {
            write!(f, "{:.digits$}", self.0)
        }
    }
}
